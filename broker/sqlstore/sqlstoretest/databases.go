package sqlstoretest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/broker/storetest"
	"github.com/ebb-broker/ebb/migrations"
)

// Open opens a new SQLite store.
func Open(t testing.TB) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: SQLite(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// SQLite returns the URL of a new database with the schema.
func SQLite(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ebb.db")
	Schema(t, path)
	return "sqlite://" + path
}

// Schema writes a database with the schema to path, unless the file exists.
//
// Migrating takes half a second with -race, and the tests of this repository open
// thousands of stores. So it is done once in each process.
func Schema(t testing.TB, path string) {
	t.Helper()
	whole, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the test's own
	if errors.Is(err, fs.ErrExist) {
		return
	}
	if err == nil {
		_, err = f.Write(whole)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// migrated returns a database file without rows. It was closed, so it has no write-ahead
// log.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "ebb-schema-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "ebb.db")
	cfg := sqlstore.Config{URL: "sqlite://" + path}
	if _, err := sqlstore.Migrate(context.Background(), cfg); err != nil {
		return nil, err
	}
	for _, more := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + more); !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("sqlstoretest: the database is not whole without " + more)
		}
	}
	return os.ReadFile(path) //nolint:gosec // made above
})

// Postgres returns the URL of a new database with the schema, on the server of
// EBB_TEST_POSTGRES. The template that it copies stays on the server, one for each
// schema.
func Postgres(t testing.TB) string {
	t.Helper()
	files, err := migrations.Files()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for _, f := range files {
		sum.Write([]byte(f.Checksum))
	}
	return storetest.PostgresLike(t, "ebb_schema_"+hex.EncodeToString(sum.Sum(nil))[:16], func(url string) {
		if _, err := sqlstore.Migrate(t.Context(), sqlstore.Config{URL: url}); err != nil {
			t.Fatal(err)
		}
	})
}

// Exec changes a database without ebb; url comes from SQLite or Postgres.
func Exec(t testing.TB, url, statement string) {
	t.Helper()
	path, is := strings.CutPrefix(url, "sqlite://")
	if !is {
		storetest.PostgresExec(t, url, statement)
		return
	}
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}
