package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// texts runs a query of one column as the superuser.
func (b bed) texts(t *testing.T, query string, args ...any) []string {
	t.Helper()
	rows, err := connect(t, b.admin).Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatALeaseLeavesHasNoRightsOfTheOwner: the role of a lease creates every kind of object
// that runs with its owner's rights, and lets all roles use them. Revoke assigns only the tables
// and sequences to the configured owner. Other roles can reach neither these tables nor, through
// them, the other data of the owner.
func TestWhatALeaseLeavesHasNoRightsOfTheOwner(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Owner = b.kept
	for _, s := range []string{
		"CREATE TABLE secret (v text)", "INSERT INTO secret VALUES ('s')", "GRANT ALL ON secret TO " + b.kept, "GRANT CREATE ON SCHEMA public TO " + b.kept, "GRANT CREATE ON DATABASE " + b.db + " TO " + b.kept,
		"GRANT CREATE ON DATABASE " + b.db + " TO " + b.rw, "CREATE DOMAIN shared AS int",
	} {
		storetest.PostgresExec(t, b.admin, s)
	}
	d := b.driver(t)
	g, c, doc := b.mint(t, d, "write")
	_, _, reader := b.mint(t, d, "read")
	conn := connect(t, doc.URI)
	for _, s := range []string{
		`CREATE TABLE public."My Table" (id serial, a int DEFAULT 7, m shared)`, `INSERT INTO "My Table" (m) VALUES (1)`,
		`GRANT ALL ON "My Table" TO PUBLIC`, `GRANT UPDATE (a) ON "My Table" TO ` + b.ro + " WITH GRANT OPTION", `GRANT USAGE ON SEQUENCE "My Table_id_seq" TO PUBLIC`,
		"CREATE TABLE parts (a int) PARTITION BY LIST (a)", "CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1)", "CREATE SEQUENCE seq",
		"CREATE VIEW loot AS SELECT v FROM secret", "GRANT SELECT ON loot TO PUBLIC", "CREATE MATERIALIZED VIEW mv AS SELECT 1 AS one",
		"CREATE FUNCTION leak() RETURNS text LANGUAGE sql SECURITY DEFINER BEGIN ATOMIC SELECT v FROM public.secret; END",
		"CREATE FUNCTION \"od-d\"(int, VARIADIC x text[]) RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
		"CREATE PROCEDURE pr(INOUT a int, b text) LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
		"CREATE AGGREGATE agg(int) (SFUNC = int4pl, STYPE = int)", "CREATE OPERATOR ## (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)",
		`CREATE RULE r AS ON INSERT TO "My Table" DO ALSO DELETE FROM secret`,
		"CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", "CREATE TRIGGER tr BEFORE INSERT ON parts FOR EACH ROW EXECUTE FUNCTION trg()",
		`CREATE TRIGGER own BEFORE UPDATE ON "My Table" FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
		`CREATE POLICY pol ON "My Table" USING (true)`, "CREATE TYPE mood AS ENUM ('a')", "CREATE TYPE pair AS (a int, b int)", "CREATE DOMAIN dom AS int",
		"CREATE TYPE span AS RANGE (SUBTYPE = float8)", `CREATE STATISTICS st ON id, a FROM "My Table"`, "CREATE COLLATION co (LOCALE = 'C')",
		"CREATE SCHEMA own", "CREATE TABLE own.inside (a int)", "SELECT lo_create(0)", "CREATE TEXT SEARCH CONFIGURATION ts (COPY = simple)",
		"ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC",
	} {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	got := b.texts(t, `SELECT i.type || ' ' || i.identity FROM pg_shdepend s, pg_identify_object(s.classid, s.objid, s.objsubid) i
		WHERE s.refobjid = $1::regrole AND s.deptype = 'o' AND s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1`, b.kept)
	want := []string{`sequence public."My Table_id_seq"`, "sequence public.seq", `table public."My Table"`, "table public.part1", "table public.parts"}
	if !slices.Equal(got, want) {
		t.Errorf("the owner has %q", got)
	}
	if left := b.texts(t, `SELECT rulename::text FROM pg_rules WHERE schemaname = 'public' UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal UNION ALL SELECT polname FROM pg_policy
		UNION ALL SELECT oid::text FROM pg_largeobject_metadata WHERE lomowner = $1::regrole UNION ALL SELECT defaclacl::text FROM pg_default_acl
		UNION ALL SELECT c.relname || a.grantee FROM pg_class c, aclexplode(c.relacl) a WHERE c.relowner = $1::regrole AND a.grantee <> c.relowner
		UNION ALL SELECT attname || attacl::text FROM pg_attribute WHERE attrelid = '"My Table"'::regclass AND cardinality(attacl) > 0`, b.kept); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
	if rows := b.texts(t, `SELECT concat_ws(' ', id, a, m) FROM "My Table"`); !slices.Equal(rows, []string{"1 7 1"}) {
		t.Errorf("the table holds %q", rows)
	}
	other := connect(t, reader.URI)
	for _, s := range []string{"SELECT * FROM loot", "SELECT leak()", `SELECT * FROM "My Table"`, `UPDATE "My Table" SET a = 1`} {
		if _, err := other.Exec(t.Context(), s); err == nil {
			t.Errorf("another lease may %s", s)
		}
	}
}

// TestTheOwnerIsAway: if the configured owner role does not exist, no table is dropped by
// mistake. The revocation is pending and listed.
func TestTheOwnerIsAway(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Owner = "nobody_" + b.db
	d := b.driver(t)
	g, c, doc := b.mint(t, d, "write")
	if _, err := connect(t, doc.URI).Exec(t.Context(), "CREATE TABLE mine (a int)"); err != nil {
		t.Fatal(err)
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("Revoke = %v", err)
	}
	if _, err := pgx.Connect(t.Context(), doc.URI); err == nil {
		t.Error("the role logs in")
	}
	storetest.PostgresExec(t, b.admin, "CREATE ROLE "+b.cfg.Owner)
	t.Cleanup(func() {
		storetest.PostgresExec(t, b.admin, "DROP OWNED BY "+b.cfg.Owner)
		storetest.PostgresExec(t, b.admin, "DROP ROLE "+b.cfg.Owner)
	})
	storetest.PostgresExec(t, b.admin, "GRANT "+b.cfg.Owner+" TO "+strings.Replace(b.ro, "ro_", "broker_", 1))
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Error(err)
	}
	if n := b.texts(t, "SELECT tablename FROM pg_tables WHERE tablename = 'mine'"); len(n) != 1 {
		t.Errorf("tables %q", n)
	}
}

// TestWhatCannotBeDroppedAlone: a function of an extension that the lease made cannot be
// dropped alone, and must not become the owner's. All objects of the lease are dropped.
func TestWhatCannotBeDroppedAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Owner = b.kept
	storetest.PostgresExec(t, b.admin, "GRANT CREATE ON DATABASE "+b.db+" TO "+b.rw)
	if n := b.texts(t, "SELECT name::text FROM pg_available_extensions WHERE name = 'citext'"); len(n) == 0 {
		counterpart.Missing(t, "postgres", "install PostgreSQL's contrib extensions at the server of EBB_TEST_POSTGRES")
	}
	d := b.driver(t)
	g, c, doc := b.mint(t, d, "write")
	conn := connect(t, doc.URI)
	for _, s := range []string{
		"CREATE FUNCTION leak() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'", "CREATE TABLE mine (a int)",
		"CREATE EXTENSION citext", "ALTER EXTENSION citext ADD FUNCTION leak()",
	} {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if left := b.texts(t, "SELECT proname::text FROM pg_proc WHERE proname = 'leak' UNION ALL SELECT tablename FROM pg_tables WHERE tablename = 'mine' UNION ALL SELECT extname FROM pg_extension WHERE extname = 'citext'"); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}
