package sqlstoretest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker/sqlstore"
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
