package sqlstoretest

import (
	"database/sql"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver of the file

	"github.com/ebb-broker/ebb/broker/storetest"
)

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
