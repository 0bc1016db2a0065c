package pgsql_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// lines returns the lines of a file in testdata.
func lines(t testing.TB, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// detector runs statements on a real server and reports which of them write.
type detector struct {
	t     testing.TB
	conn  *pgconn.PgConn
	limit string // of the time of a statement
}

func newDetector(t testing.TB) detector {
	t.Helper()
	return newDetectorAt(t, database(t))
}

// newDetectorAt is newDetector for a database that exists.
func newDetectorAt(t testing.TB, url string) detector {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	d := detector{t, conn, "1min"}
	d.must("SET search_path = public")
	return d
}

// database returns the URL of a new database with the tables of setup.sql.
func database(t testing.TB) string {
	t.Helper()
	url := storetest.Postgres(t)
	conn, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	detector{t, conn, ""}.must(strings.Join(lines(t, "setup.sql"), "\n"))
	return url
}

// must returns the first value of the last result.
func (d detector) must(sql string) string {
	d.t.Helper()
	results, err := d.conn.Exec(d.t.Context(), sql).ReadAll()
	if err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	if last := results[len(results)-1]; len(last.Rows) > 0 {
		return string(last.Rows[0][0])
	}
	return ""
}

const sequences = "SELECT string_agg(sequencename || coalesce(last_value::text, ''), ',' ORDER BY 1) FROM pg_sequences"

// tables are the tables and views of the schema public that the transaction has used.
const tables = `SELECT string_agg(relname, ',') FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'm', 'v')
	AND oid IN (SELECT relation FROM pg_locks WHERE locktype = 'relation' AND pid = pg_backend_pid())`

// wrote runs a text in a transaction that it rolls back. It reports whether the text assigned a
// transaction id, or changed a sequence.
func (d detector) wrote(sql string) (wrote bool, err error) {
	d.t.Helper()
	before := d.must(sequences)
	d.must("BEGIN; SET LOCAL statement_timeout = '" + d.limit + "'")
	_, err = d.conn.Exec(d.t.Context(), sql).ReadAll()
	if d.conn.IsClosed() {
		d.t.Fatalf("%q: the server closed the connection: %v", sql, err)
	}
	if d.conn.TxStatus() == 'T' {
		wrote = d.must("SET LOCAL statement_timeout = 0; SELECT pg_current_xact_id_if_assigned() IS NOT NULL") == "t"
		d.named(sql, d.must(tables))
	}
	d.must("ROLLBACK; DEALLOCATE ALL")
	return wrote || d.must(sequences) != before, err
}

// named checks that the facts of a text name all used tables, except the tables that views,
// partitions and foreign keys add. Facts with an operation that may concern any table are not
// checked, nor are functions that read definitions.
func (d detector) named(sql, used string) {
	d.t.Helper()
	facts, err := pgsql.Classify(sql, known)
	if err != nil || strings.Contains(sql, "pg_get_") {
		return
	}
	var objects []string
	for _, o := range facts.Operations {
		if o.Object == "?" || slices.Contains([]string{pgsql.Unknown, pgsql.Admin, pgsql.Call}, o.Action) {
			return
		}
		objects = append(objects, strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(o.Object, "?."), "public."), `"`, ""))
	}
	if !reads(sql, known) && slices.Contains(objects, "u") { // it refers to t
		objects = append(objects, "t")
	}
	for name := range strings.SplitSeq(used, ",") {
		within := map[string]string{"t": "v", "part1": "parts"}[name]
		if name != "" && !slices.Contains(objects, name) && !slices.Contains(objects, within) {
			d.t.Errorf("%q uses %s, and %q are named", sql, name, objects)
		}
	}
}

// TestStatementsOnAServer: the server decides which statements write, and none of them is
// classified as a read. Statements that do not write are.
//
//ebb:invariant I5 No statement that writes on a real server is classified as a read
func TestStatementsOnAServer(t *testing.T) {
	t.Parallel()
	d := newDetector(t)
	for name, want := range map[string]bool{"reads.sql": false, "writes.sql": true} {
		for _, sql := range lines(t, name) {
			wrote, err := d.wrote(sql)
			if err != nil || wrote != want {
				t.Errorf("%q: the server says %v, %v", sql, wrote, err)
			}
			if reads(sql, known) == wrote {
				t.Errorf("%q: %s, and the server says that it writes: %v", sql, summary(t, sql, known), wrote)
			}
		}
	}
}

// TestReadsInAReadOnlySession: every read runs in a session with default_transaction_read_only, and
// none of them makes it writable.
//
//ebb:invariant I5 No statement that is classified as a read ends the read-only mode of a session
func TestReadsInAReadOnlySession(t *testing.T) {
	t.Parallel()
	d := newDetector(t)
	d.must("SET default_transaction_read_only = on")
	for _, sql := range append(lines(t, "reads.sql"), "SET TRANSACTION READ ONLY; RESET ALL", "RESET timezone") {
		d.must("BEGIN")
		if _, err := d.conn.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Errorf("%q: %v", sql, err)
			d.must("ROLLBACK")
			continue
		}
		if d.must("SHOW transaction_read_only") != "on" || d.must("ROLLBACK; DEALLOCATE ALL; SHOW default_transaction_read_only") != "on" {
			t.Errorf("%q ends the read-only mode", sql)
		}
	}
	for _, sql := range []string{"RESET transaction_read_only", "SET TRANSACTION READ WRITE", "SET transaction_read_only = off", `SET "Transaction_Read_Only" TO 0`} {
		d.must("BEGIN; " + sql)
		if d.must("SHOW transaction_read_only") != "off" || reads(sql, known) {
			t.Errorf("%q does not end the read-only mode, or is a read", sql)
		}
		d.must("ROLLBACK")
	}
}

// TestCatalogQueries: the views that come with the server read only.
func TestCatalogQueries(t *testing.T) {
	t.Parallel()
	d := newDetector(t)
	results, err := d.conn.Exec(t.Context(), "SELECT schemaname || '.' || viewname, definition FROM pg_views WHERE schemaname IN ('pg_catalog', 'information_schema')").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, row := range results[0].Rows {
		sql := string(row[1])
		for op := range strings.SplitSeq(summary(t, sql, known), ", ") {
			if !strings.HasPrefix(op, "read ") && !strings.HasPrefix(op, "call ?.pg_") && !strings.HasPrefix(op, "call information_schema.") && op != "session" {
				t.Errorf("%s: %s", row[0], op)
			}
		}
		if reads(sql, known) {
			n++
		}
	}
	t.Logf("%d of %d definitions are reads without calls of other functions", n, len(results[0].Rows))
}

// TestFunctionsOnAServer: the listed functions are those that the server's catalog describes, and
// none of them writes.
func TestFunctionsOnAServer(t *testing.T) {
	t.Parallel()
	d := newDetector(t)
	names, err := os.ReadFile("names/functions.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(names))
	if !slices.IsSorted(listed) {
		t.Error("names/functions.txt is not sorted")
	}
	results, err := d.conn.Exec(t.Context(), `SELECT p.proname, p.provolatile, p.prokind, (SELECT coalesce(string_agg(CASE
		WHEN a = 'text'::regtype THEN '''a''' WHEN a = 'regclass'::regtype THEN '''t''' WHEN a IN ('int4'::regtype, 'int8'::regtype, 'int2'::regtype, 'oid'::regtype, 'float8'::regtype, 'numeric'::regtype) THEN '1'
		WHEN a = 'anyelement'::regtype OR a = '"any"'::regtype THEN '1' ELSE 'NULL' END || CASE WHEN a::regtype::text ~ '^(any|")' THEN '' ELSE '::' || a::regtype END, ', ' ORDER BY o), '')
		FROM unnest(p.proargtypes) WITH ORDINALITY x (a, o)) FROM pg_proc p WHERE pronamespace = 'pg_catalog'::regnamespace`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	for _, row := range results[0].Rows {
		name, volatile, kind, args := string(row[0]), string(row[1]) == "v", string(row[2]), string(row[3])
		if !slices.Contains(listed, name) {
			continue
		}
		if volatile {
			t.Errorf("%s is volatile", name)
		}
		call := fmt.Sprintf(`SELECT pg_catalog."%s"(%s)`, name, args)
		if kind == "w" {
			call += " OVER ()"
		}
		if !reads(call, known) {
			t.Errorf("%s: %s", call, summary(t, call, known))
		}
		wrote, err := d.wrote(call)
		if wrote {
			t.Errorf("%s writes", call)
		}
		ran[name] = ran[name] || err == nil
	}
	for name, done := range ran {
		if !done {
			delete(ran, name)
		}
	}
	if len(ran) < 450 {
		t.Errorf("only %d of %d functions ran", len(ran), len(listed))
	}
	t.Logf("%d of %d functions ran", len(ran), len(listed))
}

// FuzzClassify: no text makes the classifier panic, and each result is within the bounds of Facts.
func FuzzClassify(f *testing.F) {
	for _, name := range []string{"reads.sql", "writes.sql", "setup.sql"} {
		for _, sql := range lines(f, name) {
			f.Add(sql, true)
		}
	}
	f.Add("SELECT '\\'; DELETE FROM t; --'", false)
	f.Fuzz(func(t *testing.T, sql string, strings bool) {
		facts, err := pgsql.Classify(sql, pgsql.Settings{StandardStrings: strings, UTF8: true})
		if err != nil {
			return
		}
		for _, o := range facts.Operations {
			if o.Action == "" || len(o.Object) > 400 || len(o.Details["statement"]) > 256 {
				t.Errorf("%+v", o)
			}
		}
		if doubled, err := pgsql.Classify(sql+"\n;DELETE FROM t", pgsql.Settings{StandardStrings: strings, UTF8: true}); err == nil && len(facts.Operations) == 0 && len(doubled.Operations) == 0 {
			t.Errorf("%q hides the statement behind it", sql)
		}
	})
}

// TestColumnNotationOnAServer: a server calls a function that has one argument also as (x).name and as
// TREAT(x AS name). A volatile function of the server's catalog is no read in these forms either, except
// those that are reads in the form name(x).
func TestColumnNotationOnAServer(t *testing.T) {
	t.Parallel()
	d := newDetector(t)
	results, err := d.conn.Exec(t.Context(), `SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND provolatile = 'v'
		AND prokind = 'f' AND pronargs >= 1 AND pronargs - pronargdefaults <= 1 AND NOT 'internal'::regtype = ANY (proargtypes)`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(results[0].Rows) < 30 {
		t.Errorf("the server has %d functions", len(results[0].Rows))
	}
	for _, row := range results[0].Rows {
		name := string(row[0])
		called := reads("SELECT "+name+"(x)", known)
		for _, form := range []string{"SELECT (x).%s", "SELECT x.%s FROM abs(1) x", "SELECT x[1].%s", "SELECT TREAT(x AS %s)"} {
			if sql := fmt.Sprintf(form, name); reads(sql, known) && !called {
				t.Errorf("%s: %s", sql, summary(t, sql, known))
			}
		}
	}
}
