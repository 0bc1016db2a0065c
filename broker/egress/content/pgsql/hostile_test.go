package pgsql_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
)

// known are the settings of a session in the usual state.
var known = pgsql.Settings{StandardStrings: true, UTF8: true}

// summary returns the operations of a text as one line, or "refused".
func summary(t testing.TB, sql string, set pgsql.Settings) string {
	t.Helper()
	facts, err := pgsql.Classify(sql, set)
	if err != nil {
		if !errors.As(err, new(*content.Error)) {
			t.Errorf("%q: %v is no content.Error", sql, err)
		}
		return "refused"
	}
	var out []string
	for _, o := range facts.Operations {
		s := o.Action
		if o.Object != "" {
			s += " " + o.Object
		}
		if o.Details["where"] == "no" {
			s += " without where"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// reads reports whether all operations of a text are reads.
func reads(sql string, set pgsql.Settings) bool {
	facts, err := pgsql.Classify(sql, set)
	return err == nil && !slices.ContainsFunc(facts.Operations, func(o content.Operation) bool { return !pgsql.Reads(o) })
}

// TestLexicalTricks: a write that comments, quotes, escapes or numbers could hide is found, or the
// text is refused.
//
//ebb:invariant I6 An SQL text that servers can split into different tokens is refused
func TestLexicalTricks(t *testing.T) {
	t.Parallel()
	off, noUTF8 := known, known
	off.StandardStrings, noUTF8.UTF8 = false, false
	for _, tt := range []struct {
		sql, want string
		set       pgsql.Settings
	}{
		// Comments.
		{"/* SELECT 1 */ DELETE FROM t", "read ?.t, delete ?.t without where", known},
		{"/* /* */ DELETE FROM t -- */ SELECT 1", "session", known},
		{"/* /* */ */ DELETE FROM t", "read ?.t, delete ?.t without where", known},
		{"SELECT 1 -- \n; DELETE FROM t", "session, read ?.t, delete ?.t without where", known},
		{"SELECT 1 -- \r; DELETE FROM t", "session, read ?.t, delete ?.t without where", known},
		{"SELECT 1 --\v; DELETE FROM t", "session", known},
		{"SELECT 1 */* ; DELETE FROM t */ 2", "session", known},
		{"SELECT 1 @--x\n; DELETE FROM t", "session, read ?.t, delete ?.t without where", known},
		{"SELECT 1 +/* ' */; DELETE FROM t; --'", "session, read ?.t, delete ?.t without where", known},
		{"SELECT 1 /* -- */; DELETE FROM t", "session, read ?.t, delete ?.t without where", known},
		{"SELECT 1 // ; DELETE FROM t", "session, read ?.t, delete ?.t without where", known},
		{"DELETE/**/FROM/**/t", "read ?.t, delete ?.t without where", known},
		{"/*", "refused", known},
		{"-- DELETE FROM t", "", known},
		{";;;", "", known},
		// Strings.
		{`SELECT '\'; DELETE FROM t; --'`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT '\'; DELETE FROM t; --'`, "refused", off},
		{`SELECT 'a'; DELETE FROM t`, "session, read ?.t, delete ?.t without where", off},
		{`SELECT E'\'; DELETE FROM t; --'`, "session", known},
		{`SELECT e'\\'; DELETE FROM t; --'`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT E'''; DELETE FROM t; --'`, "session", known},
		{"SELECT E'a'\n'\\'; DELETE FROM t; --'", "session", known},
		{"SELECT E'a' -- x\n '\\'; DELETE FROM t; --'", "session", known},
		{"SELECT E'a' '\\'; DELETE FROM t; --'", "session, read ?.t, delete ?.t without where", known},
		{"SELECT E'a' /*\n*/ '\\'; DELETE FROM t; --'", "session, read ?.t, delete ?.t without where", known},
		{"SELECT 'a'\n'\\'; DELETE FROM t; --'", "session, read ?.t, delete ?.t without where", known},
		{"SELECT 'a'\n'\\'; DELETE FROM t; --'", "refused", off},
		{`SELECT U&'\'; DELETE FROM t; --'`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT U&'d' UESCAPE '\'; DELETE FROM t; --'`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT u & '\'; DELETE FROM t; --'`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT N'\'; DELETE FROM t; --'`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT N'\'; DELETE FROM t; --'`, "refused", off},
		{`SELECT B'\'; DELETE FROM t; --'`, "refused", known},
		{`SELECT x'1''; DELETE FROM t; --'`, "refused", known},
		{`SELECT xE'\'; DELETE FROM t; --'`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT 'a''; DELETE FROM t; --'`, "session", known},
		{`SELECT 'a`, "refused", known},
		{`SELECT E'a\`, "refused", known},
		// Dollar quotes.
		{"SELECT $$; DELETE FROM t; $$", "session", known},
		{"SELECT $a$ $b$ $a$; DELETE FROM t; --$b$", "session, read ?.t, delete ?.t without where", known},
		{"SELECT $a$ $A$; DELETE FROM t; --$a$", "session", known},
		{"SELECT a$$; DELETE FROM t; --$$", "session, read ?.t, delete ?.t without where", known},
		{"SELECT $1$a$; DELETE FROM t; --$a$", "refused", known},
		{"SELECT 1$a$; DELETE FROM t; --$a$", "refused", known},
		{"SELECT $é$; DELETE FROM t; $é$", "session", known},
		{"SELECT $a-$; DELETE FROM t; $a-$", "refused", known},
		{"SELECT $a", "refused", known},
		// Numbers: versions before 15 end them where a letter follows.
		{`SELECT 1E'\'; DELETE FROM t; --'`, "refused", known},
		{`SELECT 0xE'\'; DELETE FROM t; --'`, "refused", known},
		{"SELECT 1_000", "refused", known},
		{"SELECT 1e+", "refused", known},
		{"SELECT 1.e5, .5, 1.5e-3, 1., 5 FROM t", "read ?.t", known},
		{"SELECT 1.FROM t", "refused", known},
		{"SELECT $1FROM t", "refused", known},
		// Names.
		{`SELECT "a"; DELETE FROM t`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT "a""; DELETE FROM t; --"`, "session", known},
		{`SELECT "a\"; DELETE FROM t; --"`, "session, read ?.t, delete ?.t without where", known},
		{`SELECT * FROM U&"\0074"`, "refused", known},
		{`SELECT * FROM ""`, "refused", known},
		{`SELECT * FROM "T.x", "a""b"."c"`, `read ?."T.x", read "a""b".c`, known},
		{`DELETE FROM "public.t"`, `read ?."public.t", delete ?."public.t" without where`, known},
		{"SELECT * FROM " + strings.Repeat("x", 64), "unknown ?", known},
		{"SELECT * FROM DÉPÔT", "unknown ?", known},
		{"SELECT * FROM dépôt", `read ?."dépôt"`, known},
		{"SELECT \u212aeys FROM t", "unknown ?", known}, // KELVIN SIGN, whose lower case is k
		{"\u017fELECT 1", "unknown ?", known},           // LONG S, whose upper case is S
		{"SELECT\u00a01", "unknown ?", known},           // a no-break space is a letter
		// Bytes.
		{"SELECT 1\x00; DELETE FROM t", "refused", known},
		{"SELECT 'é'", "refused", noUTF8},
		{"SELECT '\x95'; DELETE FROM t; --'", "refused", known},
		{"SELECT '\xe9'", "refused", known},
		{"SELECT\v1", "refused", known},
		{"SELECT \x01", "refused", known},
		{`SELECT 1 \; DELETE FROM t`, "refused", known},
		{"SELECT {fn now()}", "refused", known},
	} {
		if got := summary(t, tt.sql, tt.set); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.sql, got, tt.want)
		}
	}
}

// TestHiddenWrites: writes and tables in every place of a statement are found.
//
//ebb:invariant I5 No statement that writes is classified as a read
func TestHiddenWrites(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x":                                "read ?.t, delete ?.t without where",
		"WITH time AS (DELETE FROM t RETURNING *) SELECT 1":                                    "read ?.t, delete ?.t without where",
		"WITH x AS MATERIALIZED (WITH y AS (SELECT 1) UPDATE t SET a = 1 RETURNING a) TABLE x": "read ?.t, update ?.t without where",
		"SELECT (WITH x AS (INSERT INTO t VALUES (1) RETURNING 1) SELECT 1)":                   "read ?.t, insert ?.t",
		"WITH RECURSIVE s AS (SELECT 1 UNION ALL SELECT n FROM s, secret) SELECT * FROM s":     "read ?.secret",
		"WITH s AS (SELECT * FROM s) SELECT * FROM s, public.s":                                "read ?.s, read public.s",
		"SELECT * FROM (WITH s AS (SELECT 1) SELECT * FROM s) x, s":                            "read ?.s",
		"SELECT * INTO n FROM t":                               "ddl ?.n, read ?.t",
		"SELECT a INTO TEMP n FROM t":                          "ddl pg_temp.n, read ?.t",
		"SELECT * FROM t FOR UPDATE":                           "read ?.t, lock ?.t",
		"(SELECT * FROM t) FOR NO KEY UPDATE":                  "read ?.t, lock ?.t",
		"SELECT * FROM (SELECT * FROM t FOR KEY SHARE) x":      "read ?.t, lock ?.t",
		"SELECT * FROM ((SELECT 1) a JOIN secret s ON true) b": "read ?.secret",
		"SELECT * FROM a LEFT JOIN b ON left(a.x, 1) = 'b', c CROSS JOIN LATERAL (SELECT * FROM d) e": "read ?.a, read ?.b, read ?.c, read ?.d",
		"SELECT * FROM a x (b, c), d":             "read ?.a, read ?.d",
		"SELECT 1 AS from FROM secret":            "read ?.secret",
		"SELECT 1 AS is FROM secret":              "read ?.secret",
		"SELECT 1 IS DISTINCT FROM 2 FROM secret": "read ?.secret",
		"SELECT extract(year FROM (SELECT d FROM secret)), substring(a FROM 1 FOR 2) FROM t": "read ?.secret, read ?.t",
		"SELECT CASE WHEN EXISTS (TABLE secret) THEN 1 END":                                  "read ?.secret",
		"SELECT a[(SELECT 1 FROM secret)] FROM t":                                            "read ?.secret, read ?.t",
		"VALUES ((SELECT 1 FROM secret))":                                                    "read ?.secret",
		"SELECT 1 ORDER BY (SELECT 1 FROM secret) LIMIT (SELECT 2 FROM q)":                   "read ?.secret, read ?.q",
		"SELECT nextval('s')":                                                                "call ?.nextval",
		"SELECT * FROM pg_catalog.setval('s', 1)":                                            "call pg_catalog.setval",
		`SELECT "pg_catalog"."lo_unlink"(1)`:                                                 "call pg_catalog.lo_unlink",
		"SELECT db.public.f(1)":                                                              "call public.f",
		"SELECT public.lower('x')":                                                           "call public.lower",
		`SELECT "coalesce"(1)`:                                                               "call ?.coalesce",
		`SELECT "LOWER"('x')`:                                                                `call ?."LOWER"`,
		"SELECT time.f(1)":                                                                   "call time.f",
		"SELECT txid_current(), pg_current_xact_id()":                                        "call ?.txid_current, call ?.pg_current_xact_id",
		"SELECT DISTINCT ON (a) over(b), filter(c) FROM t":                                   "call ?.over, call ?.filter, read ?.t",
		"SELECT DISTINCT ON (a) ilike(b) FROM t":                                             "call ?.ilike, read ?.t",
		"SELECT a NOT ILIKE ('x') FROM t":                                                    "read ?.t",
		"SELECT join(a) FROM t":                                                              "call ?.join, read ?.t",
		"SELECT 1 FROM t JOIN u ON join(t)":                                                  "unknown ?",
		"SELECT 1 FROM t JOIN (u JOIN q ON true) ON true":                                    "read ?.t, read ?.u, read ?.q",
		"SELECT 1 FROM t JOIN u ON true JOIN (SELECT 1 FROM q) y ON CASE WHEN true THEN true END JOIN (v CROSS JOIN w) ON false": "read ?.t, read ?.u, read ?.q, read ?.v, read ?.w",
		"SELECT 1 FROM t x JOIN (SELECT 1 FROM q) y ON true":                                                                     "read ?.t, read ?.q",
		"SELECT 1 FROM t LEFT JOIN (SELECT 1 FROM q) y ON (1 = 2)":                                                               "read ?.t, read ?.q",
		"MERGE INTO t USING u ON a WHEN MATCHED":                                                                                 "unknown ?",
		"MERGE INTO t USING u ON CASE WHEN a THEN b END WHEN MATCHED THEN DO NOTHING":                                            "read ?.t, read ?.u",
		"RESET transaction_read_only":                                                                                            "admin transaction_read_only",
		"SET SESSION TRANSACTION READ WRITE":                                                                                     "admin transaction",
		"SET LOCAL SESSION CHARACTERISTICS AS TRANSACTION READ WRITE":                                                            "admin session",
		"SELECT cube(1) FROM t GROUP BY ((cube(2)))":                                                                             "call ?.cube, read ?.t",
		"SELECT 1 OPERATOR(public.+) 2, 1 OPERATOR(pg_catalog.+) 2":                                                              "call public.+",
		"SELECT count(*) FILTER (WHERE f(a)) OVER (ORDER BY g(b)) FROM t":                                                        "call ?.f, call ?.g, read ?.t",
		"SELECT * FROM ROWS FROM (f(1)) x":                                                                                       "call ?.f",
		"SELECT * FROM t TABLESAMPLE mine(1)":                                                                                    "read ?.t, call ?.mine",
		"SELECT ('SELECT f(1)'::text).ts_stat, ('x'::text).\"pg_read_file\", (1).a, (x).pg_typeof":                               "call ?.ts_stat, call ?.pg_read_file",
		"SELECT x.pg_sleep, t.nextval FROM abs(1) x":                                                                             "call ?.pg_sleep, call ?.nextval",
		"SELECT $1.pg_sleep, pg_sleep":                                                                                           "call ?.pg_sleep",
		"SELECT TREAT(1 AS pg_sleep)":                                                                                            "unknown ?",
		"SELECT query_to_xml('DELETE FROM t', true, true, '')":                                                                   "call ?.query_to_xml",
		"SELECT table_to_xml('secret', true, true, '')":                                                                          "call ?.table_to_xml",
		"SELECT pg_read_file('/etc/passwd'), set_config('role', 'x', false)":                                                     "call ?.pg_read_file, call ?.set_config",
		"SELECT (x).f FROM t x":                                                                                                  "read ?.t",
		"SELECT (x).f(1) FROM t x":                                                                                               "unknown ?",
		"EXPLAIN ANALYZE DELETE FROM t WHERE a = 1":                                                                              "read ?.t, delete ?.t",
		"EXPLAIN (ANALYZE) (SELECT nextval('s'))":                                                                                "call ?.nextval",
		"EXPLAIN (values 1) DELETE FROM t":                                                                                       "read ?.t, delete ?.t without where",
		"EXPLAIN (VALUES (1))":                                                                                                   "session",
		"EXPLAIN ANALYZE EXECUTE p":                                                                                              "unknown ?",
		"EXPLAIN ANALYZE CREATE TABLE n AS TABLE t":                                                                              "ddl ?.n, read ?.t",
		"PREPARE p (int) AS UPDATE t SET a = 1 WHERE b = $1":                                                                     "read ?.t, update ?.t",
		"PREPARE TRANSACTION 'x'":                                                                                                "admin prepared transactions",
		"COMMIT PREPARED 'x'":                                                                                                    "session, admin prepared transactions",
		"EXECUTE p":                                                                                                              "unknown ?",
		"DO $$ BEGIN DELETE FROM t; END $$":                                                                                      "unknown ?",
		"CALL p(nextval('s'))":                                                                                                   "call ?.p, call ?.nextval",
		"DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE":                                                                        "read ?.t, lock ?.t",
		"DECLARE c CURSOR FOR DELETE FROM t":                                                                                     "unknown ?",
		"COPY t TO STDOUT":                                                                                                       "read ?.t",
		"COPY t FROM STDIN WITH (FORMAT csv) WHERE f(a)":                                                                         "call ?.f, insert ?.t",
		"COPY t TO '/etc/x'":                                                                                                     "admin files and programs, read ?.t",
		"COPY t TO PROGRAM 'sh'":                                                                                                 "admin files and programs, read ?.t",
		"COPY (DELETE FROM t RETURNING *) TO STDOUT":                                                                             "read ?.t, delete ?.t without where",
		"COPY (SELECT 1) FROM STDIN":                                                                                             "unknown ?",
		"MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (a) VALUES (1)": "read ?.t, read ?.s, delete ?.t, insert ?.t",
		"INSERT INTO t SELECT * FROM s ON CONFLICT (a) DO UPDATE SET b = (SELECT 1 FROM u)":                      "read ?.s, read ?.t, update ?.t, read ?.u, insert ?.t",
		"INSERT INTO t (a) WITH x AS (DELETE FROM u RETURNING a) SELECT a FROM x":                                "read ?.u, delete ?.u without where, insert ?.t",
		"TRUNCATE t, ONLY s.u CASCADE":                                              "truncate ?.t, truncate s.u, truncate ?",
		"LOCK t IN SHARE MODE":                                                      "lock ?.t",
		"CREATE VIEW v AS SELECT * FROM secret":                                     "ddl ?.v, read ?.secret",
		"CREATE TABLE n AS EXECUTE p":                                               "unknown ?",
		"CREATE TABLE n (LIKE t, a int REFERENCES u)":                               "ddl ?.n, ddl ?.t, ddl ?.u",
		"ALTER TABLE t RENAME TO u":                                                 "ddl ?.t, ddl ?",
		"CREATE OR REPLACE TRUSTED LANGUAGE x":                                      "admin language",
		"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC DELETE FROM t; SELECT 1; END": "ddl ?, session",
		"CREATE SCHEMA s GRANT ALL ON t TO public":                                  "admin grant",
		"ALTER SYSTEM SET x = 1":                                                    "admin system",
		"GRANT ALL ON t TO public":                                                  "admin grant",
		"SET search_path = evil; SELECT * FROM t":                                   "admin search_path, read ?.t",
		`SET "Search_Path" = evil`:                                                  "admin search_path",
		"SET LOCAL standard_conforming_strings TO off":                              "admin standard_conforming_strings",
		"SET ROLE x":                   "admin role",
		"SET SESSION AUTHORIZATION x":  "admin session_authorization",
		"RESET ROLE":                   "admin role",
		"SET NAMES 'SJIS'":             "admin client_encoding",
		"SET client_encoding = 'UTF8'": "session",
		"BEGIN READ WRITE":             "admin transaction_read_only",
		"SET SESSION CHARACTERISTICS AS TRANSACTION READ /**/ WRITE": "admin transaction_read_only",
		"SET transaction_read_only = off":                            "admin transaction_read_only",
		"SET timezone TO f(1)":                                       "unknown ?",
		"LISTEN x":                                                   "admin listen",
		"NOTIFY x, 'y'":                                              "admin notify",
		"VACUUM t":                                                   "admin vacuum",
		"FROBNICATE t":                                               "unknown ?",
		"SELECT 1)":                                                  "unknown ?",
		"SELECT (1":                                                  "unknown ?",
		"SELECT (1; DELETE FROM t)":                                  "unknown ?",
		strings.Repeat("(", 1000) + "SELECT 1" + strings.Repeat(")", 1000): "unknown ?",
		"DELETE FROM t WHERE true":                              "read ?.t, delete ?.t without where",
		"DELETE FROM t WHERE 1 = 1 OR a = 2":                    "read ?.t, delete ?.t without where",
		"DELETE FROM t WHERE a = 2 OR (1 < 2)":                  "read ?.t, delete ?.t without where",
		"DELETE FROM t WHERE now() IS NOT NULL RETURNING a":     "read ?.t, delete ?.t without where",
		"UPDATE t SET a = CASE WHEN b THEN 1 END WHERE c = 'x'": "read ?.t, update ?.t",
		"UPDATE t SET a = (SELECT a FROM u WHERE b = 1)":        "read ?.u, read ?.t, update ?.t without where",
		"SELECT * FROM information_schema.tables, pg_class, pg_stat_statements, pg_catalog.pg_proc, db.public.t":   "read information_schema.tables, read ?.pg_class, read ?.pg_stat_statements, read pg_catalog.pg_proc, read public.t",
		"SELECT a FROM t WHERE b = ANY ($1) AND c IN (1, 2) AND d BETWEEN SYMMETRIC 1 AND 2 AND e::numeric(3) > 2": "read ?.t",
	} {
		if got := summary(t, sql, known); got != want {
			t.Errorf("%q:\n%s, want\n%s", sql, got, want)
		}
	}
}

// TestBounds: a text is refused if it is too long, or does too much.
//
//ebb:invariant I12 The size, the depth and the number of operations of an SQL text are limited
func TestBounds(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range content.MaxOperations + 1 {
		many.WriteString("TABLE t" + strings.Repeat("x", i) + ";")
	}
	for name, sql := range map[string]string{
		"101 operations": strings.ReplaceAll(many.String(), strings.Repeat("x", 62), "y"),
		"1 MiB and more": "SELECT '" + strings.Repeat("x", 1<<20) + "'",
	} {
		if got := summary(t, sql, known); got != "refused" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestTrivialConditions: a condition that is constant, or true for every row with a value in the form
// x = x, counts as none. Every other form counts as a condition.
//
//ebb:invariant I5 A DELETE whose condition compares a column with itself counts as a DELETE of all rows
func TestTrivialConditions(t *testing.T) {
	t.Parallel()
	for _, where := range []string{
		"true", "TRUE", "NOT false", "1=1", "1 = 1 AND 2 > 1", "'a' = 'a'", "(true)", "((1)) = 1", "1 IS NOT NULL", "now() > '2000-01-01'", "true OR id = 1", "id = 1 OR true", "id = 1 OR 1=1",
		"id = id", "id=id", "ID = id", `"id" = "id"`, "t.id = t.id", "public.t.id = public.t.id", "(id = id)", "((id = id))", "NOT (id = id)", "id = id AND true", "true AND id = id",
		"id = id OR id = 5", "id = 5 OR id = id", "id = id AND b = b", "id = id /* = 5 */", "id\n=\nid", "t . id = t.id", "id = id RETURNING id", "id = id RETURNING id + 1",
	} {
		merge := "MERGE INTO t USING u JOIN v ON u.a = CASE WHEN v.a THEN v.b END ON " + strings.TrimSuffix(strings.TrimSuffix(where, " RETURNING id + 1"), " RETURNING id")
		for _, action := range []string{"MATCHED THEN DELETE", "MATCHED AND t.a = 1 THEN UPDATE SET a = 1", "NOT MATCHED THEN INSERT VALUES (1) WHEN NOT MATCHED BY SOURCE THEN DELETE"} {
			if got := summary(t, merge+" WHEN "+action, known); !strings.Contains(got, "without where") {
				t.Errorf("%s WHEN %s: %s", merge, action, got)
			}
		}
		for _, sql := range []string{"DELETE FROM t WHERE " + where, "UPDATE t SET b = 1 WHERE " + where, "WITH x AS (DELETE FROM t WHERE " + where + ") SELECT 1"} {
			if got := summary(t, sql, known); !strings.Contains(got, "without where") {
				t.Errorf("%s: %s", sql, got)
			}
		}
	}
	if got := summary(t, "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (1)", known); strings.Contains(got, "without where") {
		t.Error(got)
	}
	for _, where := range []string{
		"id = 5", "id = b", "id = id + 0", "id = id - b", "b - id = id", "2 * id = id", "id = id * id", "id = id.b", "x.id = id", "id = x.id", "t.id = u.id", "a.b.c = b.c", "id = id::int", "id = id[1]",
		"id = id(1)", "id = id AND b = 5", "b = 5 AND id = id", "NOT id = id AND b", `"id" = "ID"`, `"id" = id`, "id = id IS NULL", "id = id = b", "b = id = id", "id <> id", "id >= id", "id = 'id'", "id = id || ''",
		"id IN (SELECT id FROM u WHERE id = id)", "CASE WHEN id = id THEN b END", "id BETWEEN id = id AND true", "EXISTS (SELECT 1 FROM u WHERE id = id)", "- id = id", "id = ANY (b)", "id = all(b)",
	} {
		if got := summary(t, "DELETE FROM t WHERE "+where, known); strings.Contains(got, "without where") {
			t.Errorf("%s: %s", where, got)
		}
	}
}
