package pgsql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
	t    testing.TB
	conn *pgconn.PgConn
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
	d := detector{t, conn}
	d.must("SET statement_timeout = '1min'; SET search_path = public")
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
	detector{t, conn}.must(strings.Join(lines(t, "setup.sql"), "\n"))
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

// wrote runs a text in a transaction that it rolls back. It reports whether the text assigned a
// transaction id, or changed a sequence.
func (d detector) wrote(sql string) (wrote bool, err error) {
	d.t.Helper()
	before := d.must(sequences)
	d.must("BEGIN")
	_, err = d.conn.Exec(d.t.Context(), sql).ReadAll()
	if d.conn.IsClosed() {
		d.t.Fatalf("%q: the server closed the connection: %v", sql, err)
	}
	if d.conn.TxStatus() == 'T' {
		wrote = d.must("SELECT pg_current_xact_id_if_assigned() IS NOT NULL") == "t"
	}
	d.must("ROLLBACK; DEALLOCATE ALL")
	return wrote || d.must(sequences) != before, err
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

// TestRandomStatementsOnAServer: generated statements, and statements of the corpora with parts of
// each other. If one is classified as a read, then it does not write.
//
//ebb:invariant I5 No random statement that writes on a real server is classified as a read
func TestRandomStatementsOnAServer(t *testing.T) {
	t.Parallel()
	d := newDetector(t)
	d.must("SET statement_timeout = '200ms'")
	var pool [][]string
	for _, name := range []string{"reads.sql", "writes.sql"} {
		for _, sql := range lines(t, name) {
			pool = append(pool, parts(sql))
		}
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	for name, next := range map[string]func() string{
		"mutated":   func() string { return mutate(r, pool) },
		"generated": func() string { return generator{r}.statement() },
	} {
		read, ran, wrong := 0, 0, 0
		for range tries {
			sql := next()
			is := reads(sql, known)
			if name == "mutated" && !is {
				continue
			}
			wrote, err := d.wrote(sql)
			switch {
			case wrote && is:
				t.Errorf("seed %d: %q writes, and is classified as %s", seed, sql, summary(t, sql, known))
			case err == nil && is:
				ran++
			case err == nil && !wrote:
				wrong++
			}
			if is {
				read++
			}
		}
		t.Logf("%s: %d of %d were classified as reads, the server accepted %d; %d others wrote nothing either", name, read, tries, ran, wrong)
		if ran == 0 {
			t.Errorf("%s: the server accepted none", name)
		}
	}
}

// tries are the statements of each kind in TestRandomStatementsOnAServer.
const tries = 500

// generator makes random queries. Some of their expressions, tables and clauses write.
type generator struct{ r *rand.Rand }

func (g generator) one(of ...string) string { return of[g.r.IntN(len(of))] }

// statement returns a statement of one of many forms around a query.
func (g generator) statement() string {
	return g.one("", "", "", "EXPLAIN ANALYZE ", "DECLARE c CURSOR FOR ", "PREPARE q AS ", "CREATE TEMP TABLE n AS ") + g.query(3)
}

// query returns a query with one column x of type int.
func (g generator) query(depth int) string {
	with := ""
	if depth > 0 && g.r.IntN(4) == 0 {
		with = "WITH w AS " + g.one("", "MATERIALIZED ", "NOT MATERIALIZED ") + "(" + g.body(depth-1) + ") "
	}
	s := with + "SELECT " + g.one("", "ALL ", "DISTINCT ") + g.expression(depth) + " AS x"
	if from := g.from(depth); from != "" {
		s += " FROM " + from
		if with != "" {
			s += ", w"
		}
	}
	if g.r.IntN(2) == 0 {
		s += " WHERE " + g.expression(depth) + g.one(" > 0", " IS NOT NULL", " IN (1, 2)", " IS DISTINCT FROM 4", " = ANY (ARRAY[1, 2])")
	}
	switch g.r.IntN(12) {
	case 0:
		s += " FOR " + g.one("UPDATE", "SHARE", "NO KEY UPDATE", "KEY SHARE")
	case 1:
		s += " ORDER BY " + g.expression(0) + " LIMIT " + g.expression(0)
	case 2:
		if depth > 0 && !strings.Contains(s, " FOR ") {
			s = "(" + s + ") " + g.one("UNION", "UNION ALL", "EXCEPT", "INTERSECT") + " (" + g.query(depth-1) + ")"
		}
	}
	return s
}

// body returns the statement of a WITH clause.
func (g generator) body(depth int) string {
	switch g.r.IntN(6) {
	case 0:
		return "INSERT INTO logged VALUES (1) RETURNING 1 AS x"
	case 1:
		return "DELETE FROM u WHERE a = " + g.expression(0) + " RETURNING a AS x"
	case 2:
		return "UPDATE t SET b = 'y' RETURNING a AS x"
	}
	return g.query(depth)
}

// from returns a FROM list, or "".
func (g generator) from(depth int) string {
	if depth == 0 || g.r.IntN(5) == 0 {
		return g.one("", "t", "u", "ONLY t", "v")
	}
	switch g.r.IntN(7) {
	case 0:
		return "(" + g.query(depth-1) + ") q" + g.one("", " (x)", " (y)")
	case 1:
		return "(" + g.table() + " CROSS JOIN " + g.table() + ")"
	case 2:
		return g.table() + " LEFT JOIN LATERAL (" + g.query(depth-1) + ") q ON true"
	case 3:
		return g.one("generate_series(1, 2)", "nextval('s')", "f(1)", "unnest(ARRAY[1])", "ROWS FROM (f(1), abs(1))") + " AS q"
	}
	return g.table() + g.one(", ", " CROSS JOIN ", " NATURAL LEFT JOIN ") + g.table()
}

func (g generator) table() string {
	return g.one("t", "tree", "parts", "public.logged", `"Odd Name"`, "mv", "information_schema.schemata") + " r" + string(rune('a'+g.r.IntN(26))) + string(rune('a'+g.r.IntN(26)))
}

// expression returns an expression of type int.
func (g generator) expression(depth int) string {
	if depth == 0 {
		return g.one("1", "2", "abs(-1)", "length('x')", "coalesce(NULL, 3)", "'4'::int", "CAST(1.5 AS int)", "pg_catalog.abs(2)", "E'5'::int", "$$6$$::int",
			"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "nextval('s')::int", "f(1)", `"f"(2)`, "public.f(3)", "setval('s', 9)::int")
	}
	in := g.expression(depth - 1)
	switch g.r.IntN(9) {
	case 0:
		return "(" + in + " + " + g.expression(depth-1) + ")"
	case 1:
		return "(SELECT max(x) FROM (" + g.query(depth-1) + ") s)"
	case 2:
		return "CASE WHEN " + in + " > 0 THEN " + g.expression(depth-1) + " ELSE 0 END"
	case 3:
		return "(ARRAY[" + in + ", 2])[1]"
	case 4:
		return "EXTRACT(day FROM make_date(2020, 1, least(greatest(" + in + ", 1), 28)))::int"
	case 5:
		return "abs(" + in + ")"
	case 6:
		return "CASE WHEN EXISTS (" + g.query(depth-1) + ") THEN 1 ELSE 2 END"
	case 7:
		return "length(substring('abc' FROM 1 FOR greatest(" + in + ", 1)))"
	}
	return in
}

// lexical returns constants, names and comments around a statement that writes.
func lexical(r *rand.Rand) string {
	pieces := []string{"'", "'", "''", `\`, `\\`, `\'`, "a", " ", "\n", "\r", "--", "/*", "*/", "$$", "$a$", `"`, `""`, "E'", "e'", "N'", "U&'", "B'", "x'", "u&", "$b$", "1", "$1", "é"}
	some := func(n int) (s string) {
		for range r.IntN(n) {
			s += pieces[r.IntN(len(pieces))]
		}
		return s
	}
	begin := []string{"SELECT '", "SELECT E'", "SELECT $$", "SELECT $a$", "SELECT N'", "SELECT U&'", "SELECT 'a'\n'", "SELECT E'a' --\n'", `SELECT 1 AS "`, "SELECT 1 --", "SELECT 1 /*", "SELECT 1 + /*", "SELECT 1 +--"}
	return begin[r.IntN(len(begin))] + some(6) + []string{";", "\n;", "';", "$$;", `";`, "*/;", "$a$;"}[r.IntN(7)] + " SELECT nextval('s'); " + []string{"--", "/*", "SELECT '", "SELECT $$", ""}[r.IntN(5)] + some(5)
}

// TestLexicalTricksOnAServer: no constant, name or comment hides a write, also without
// standard_conforming_strings.
//
//ebb:invariant I6 A server finds no more statements in a random SQL text than ebb
func TestLexicalTricksOnAServer(t *testing.T) {
	t.Parallel()
	d := newDetector(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 2))
	for setting, set := range map[string]pgsql.Settings{"on": known, "off": {Schema: "public", UTF8: true}} {
		d.must("SET standard_conforming_strings = " + setting + "; SET escape_string_warning = off; SET backslash_quote = on")
		read, ran, hidden := 0, 0, 0
		for range tries * 2 {
			sql := lexical(r)
			is := reads(sql, set)
			wrote, err := d.wrote(sql)
			switch {
			case is && wrote:
				t.Errorf("seed %d: with %s, %q writes, and is classified as %s", seed, setting, sql, summary(t, sql, set))
			case is && err == nil:
				ran++
			case err == nil && !wrote:
				hidden++
			}
			if is {
				read++
			}
		}
		t.Logf("with %s, %d were classified as reads, of which the server accepted %d; it accepted %d others that wrote nothing", setting, read, ran, hidden)
	}
}

// parts splits a statement at spaces and before and behind parentheses and commas.
func parts(sql string) []string {
	return strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ", ",", " , ", ";", " ; ").Replace(sql))
}

// mutate returns a statement of the pool with some parts replaced by those of others.
func mutate(r *rand.Rand, pool [][]string) string {
	s := slices.Clone(pool[r.IntN(len(pool))])
	for range 1 + r.IntN(3) {
		other := pool[r.IntN(len(pool))]
		from := r.IntN(len(other))
		piece := other[from:min(len(other), from+1+r.IntN(6))]
		at := r.IntN(len(s) + 1)
		s = slices.Concat(s[:at], piece, s[min(len(s), at+r.IntN(3)):])
	}
	return strings.Join(s, " ")
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
		facts, err := pgsql.Classify(sql, pgsql.Settings{Schema: "public", StandardStrings: strings, UTF8: true})
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
