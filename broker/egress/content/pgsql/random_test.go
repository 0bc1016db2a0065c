package pgsql_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
)

// TestRandomStatementsOnAServer: generated statements, and statements of the corpora with parts of
// each other. If one is classified as a read, then it does not write, and names all tables.
//
//ebb:invariant I5 No random statement that writes on a real server is classified as a read
func TestRandomStatementsOnAServer(t *testing.T) {
	t.Parallel()
	d := newDetector(t)
	d.limit = "2s"
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
		if ran == 0 && name == "generated" {
			t.Error("the server accepted no read")
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
	switch g.r.IntN(12) {
	case 4:
		return g.table() + " JOIN " + g.table() + " ON left('a', 1) = 'a' AND " + g.expression(depth-1) + " > 0, " + g.table()
	case 5:
		return "((" + g.query(depth-1) + ") q JOIN " + g.table() + " ON true), " + g.table() + " TABLESAMPLE system (50)"
	case 6:
		return g.one("(TABLE tree)", "(VALUES (1), (2))", "((SELECT 1) UNION (SELECT a FROM u))", "(((TABLE logged)))", "ONLY (parts)") + " AS q (x), " + g.table()
	case 7:
		return g.table() + " LEFT JOIN (" + g.table() + " CROSS JOIN " + g.table() + ") ON (SELECT " + g.expression(depth-1) + ") IS DISTINCT FROM 2, LATERAL " + g.one("abs(1)", "unnest(ARRAY[1])") + " l"
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
	for setting, set := range map[string]pgsql.Settings{"on": known, "off": {UTF8: true}} {
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
