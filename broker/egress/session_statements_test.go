package egress_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider/postgres"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// newStatementsBed returns a bed whose role may do the same by each scope, so that only the
// statements differ.
func newStatementsBed(t *testing.T, statements map[string][]string, change ...func(*brokertest.Config)) *dbBed {
	t.Helper()
	return newDBBedOf(t, func(d *dbBed, c *postgres.Config) {
		group := "rw_" + d.name
		for _, s := range []string{"CREATE ROLE " + group + " NOLOGIN", "GRANT SELECT, INSERT, UPDATE, DELETE ON t TO " + group, "CREATE SCHEMA work", "GRANT ALL ON SCHEMA work TO " + group} {
			storetest.PostgresExec(t, d.admin, s)
		}
		t.Cleanup(func() {
			storetest.PostgresExec(t, d.admin, "DROP OWNED BY "+group)
			storetest.PostgresExec(t, d.admin, "DROP ROLE "+group)
		})
		c.Databases[d.name] = map[string]string{"read": group, "write": group}
		c.Statements, c.Connections = statements, 32
	}, change...)
}

// A session uses only the statements that the configuration lists for the action of its scope,
// although its role may do more. A statement that may change something is in the audit log, and a
// denied one is too. The session goes on after a denial.
//
//ebb:invariant I5 A PostgreSQL session uses only the statements that are listed for its scope
func TestSessionStatements(t *testing.T) {
	t.Parallel()
	d := newStatementsBed(t, map[string][]string{"read": {"read"}, "write": {"read", "insert", "update", "delete"}})
	x := d.dbBox(t)
	connect := func(action string) *pgx.Conn {
		conn, err := x.connect(t, d, x.placeholder(t, "db:"+d.name+":"+action))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	reads, writes := connect("read"), connect("write")
	for _, tt := range []struct {
		conn   *pgx.Conn
		sql    string
		denied string
	}{
		{reads, "SELECT count(*) FROM t", ""},
		{reads, "WITH x AS (SELECT 1) SELECT * FROM x", ""},
		{reads, "INSERT INTO t VALUES (1)", "insert of"},
		{reads, "WITH x AS (DELETE FROM t RETURNING id) SELECT * FROM x", "delete_all of"},
		{reads, "SELECT 1; INSERT INTO t VALUES (1)", "insert of"},
		{reads, "SET default_transaction_read_only = off", "admin of"},
		{reads, "SELECT set_config('default_transaction_read_only', 'off', false)", "of"},
		{writes, "INSERT INTO t VALUES (7)", ""},
		{writes, "UPDATE t SET id = 8 WHERE id = 7", ""},
		{writes, "DELETE FROM t WHERE id = 8", ""},
		{writes, "DELETE FROM t", "delete_all of"},
		{writes, "DELETE FROM t WHERE true", "delete_all of"},
		{writes, "UPDATE t SET id = 0", "update_all of"},
		{writes, "TRUNCATE t", "truncate of"},
		{writes, "ALTER ROLE CURRENT_USER PASSWORD 'x'", "admin of"},
		{writes, "CREATE TABLE u (id int)", "ddl of"},
		{writes, "DO $$BEGIN DELETE FROM t; END$$", "of"},
		{writes, "SELECT pg_sleep(0)", "call of"},
		{writes, "SELECT count(*) FROM t", ""},
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
			if mode == pgx.QueryExecModeExec && strings.Contains(tt.sql, ";") {
				continue // the extended protocol takes one statement
			}
			_, err := tt.conn.Exec(t.Context(), tt.sql, mode)
			if tt.denied == "" && err != nil || tt.denied != "" && (stateOf(err) != "42501" || !strings.Contains(err.Error(), "ebb denied the statement: ") || !strings.Contains(err.Error(), tt.denied)) {
				t.Errorf("%s: %v", tt.sql, err)
			}
		}
	}
	if _, err := writes.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := writes.Exec(t.Context(), "TRUNCATE t"); stateOf(err) != "42501" {
		t.Errorf("in a transaction: %v", err)
	}
	if _, err := writes.Exec(t.Context(), "SELECT 1"); stateOf(err) != "25P02" { // in_failed_sql_transaction
		t.Errorf("after a denial in a transaction: %v", err)
	}
	if _, err := writes.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Error(err)
	}
	var left int
	if err := writes.QueryRow(t.Context(), "SELECT id FROM t").Scan(&left); err != nil || left != 42 {
		t.Errorf("the table has %d, %v", left, err)
	}
	if err := errors.Join(reads.Close(t.Context()), writes.Close(t.Context())); err != nil {
		t.Error(err)
	}
	counts := map[string]int{}
	for _, e := range x.b.uses(t, x.s.Task.ID) {
		counts[e.Kind]++
		if e.Kind == audit.EgressStatement && !strings.Contains(string(e.Data), `"object":"?.t"`) {
			t.Errorf("an entry without its table: %s", e.Data)
		}
	}
	if counts[audit.EgressStatement] != 6 || counts[audit.EgressDenied] < 20 {
		t.Errorf("the audit log has %v", counts)
	}
}

// A default that a lease defines can change a setting in an INSERT. ebb reads later texts correctly all
// the same: a string cannot hide a statement from it.
func TestDefinitionsHideNoStatement(t *testing.T) {
	t.Parallel()
	d := newStatementsBed(t, map[string][]string{"read": {"read"}, "write": {"read", "insert", "ddl"}})
	x := d.dbBox(t)
	conn, err := x.connect(t, d, x.placeholder(t, "db:"+d.name+":write"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"CREATE TABLE work.x (a text DEFAULT set_config('standard_conforming_strings', 'off', false))", "INSERT INTO work.x DEFAULT VALUES"} {
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeExec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.PgConn().Exec(t.Context(), `SELECT 'a\''; ALTER ROLE CURRENT_USER PASSWORD 'y' --'`).ReadAll(); stateOf(err) != "42501" {
		t.Errorf("a statement that ebb took for a string: %v", err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A text whose tables do not fit into one audit log entry is denied: it would be sent without them.
func TestStatementsFitTheirEntry(t *testing.T) {
	t.Parallel()
	d := newStatementsBed(t, map[string][]string{"read": {"read"}, "write": {"read", "insert"}})
	x := d.dbBox(t)
	conn, err := x.connect(t, d, x.placeholder(t, "db:"+d.name+":write"))
	if err != nil {
		t.Fatal(err)
	}
	text := "INSERT INTO t VALUES (1);"
	for i := range 98 {
		name := `"` + strings.Repeat("\x01", 58) + strconv.Itoa(i) + `"`
		text += "INSERT INTO " + name + "." + name + " VALUES (1);"
	}
	if _, err := conn.PgConn().Exec(t.Context(), text).ReadAll(); stateOf(err) != "42501" || !strings.Contains(err.Error(), "too much for one audit log entry") {
		t.Error(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A statement that may change something counts as a use of the lease: it is denied after the end of
// the lease, and when the task has sent as many requests as it may. Neither disconnects the session
// here, and reads go on.
func TestStatementsCountAsUses(t *testing.T) {
	t.Parallel()
	listed := map[string][]string{"read": {"read"}, "write": {"read", "insert"}}
	limited := newStatementsBed(t, listed, func(c *brokertest.Config) { c.Limits.UsesPerMinute = 3 })
	ended := newStatementsBed(t, listed)
	for name, tt := range map[string]struct {
		d      *dbBed
		before func()
		reason string
	}{
		"too many":  {limited, func() {}, `"reason":"rate_limited"`},
		"the ended": {ended, func() { ended.Clock.Jump(24 * time.Hour) }, `"reason":"no_credential"`}, // of the broker, so that egress does not disconnect the session
	} {
		x := tt.d.dbBox(t)
		conn, err := x.connect(t, tt.d, x.placeholder(t, "db:"+tt.d.name+":write"))
		if err != nil {
			t.Fatal(err)
		}
		tt.before()
		sent := 0
		for ; err == nil && sent < 100; sent++ {
			_, err = conn.Exec(t.Context(), "INSERT INTO t VALUES (1)", pgx.QueryExecModeExec)
		}
		if stateOf(err) != "42501" || !strings.Contains(err.Error(), "the credential has ended, or the task sends too many requests") {
			t.Errorf("%s: %v after %d statements", name, err, sent)
		}
		var rows int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || rows != sent { // the bed inserted one
			t.Errorf("%s: %d rows, want %d: %v", name, rows, sent, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
		uses := x.b.uses(t, x.s.Task.ID)
		if !slices.ContainsFunc(uses, func(e audit.Entry) bool {
			return e.Kind == audit.EgressDenied && strings.Contains(string(e.Data), tt.reason)
		}) {
			t.Errorf("%s: no entry of a denied statement has %s: %+v", name, tt.reason, uses)
		}
	}
}
