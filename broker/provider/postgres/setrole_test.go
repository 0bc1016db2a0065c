package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ebb-broker/ebb/broker/storetest"
)

// TestALeaseIsNotItsGroupRole: the role of a lease has the rights of its group roles, but
// cannot act as one of them. Its objects belong to itself and are dropped with it. Before
// version 16 the server cannot make this distinction, and the check of the set-up reports it.
func TestALeaseIsNotItsGroupRole(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.driver(t)
	_, _, doc := b.mint(t, d, "write")
	conn := connect(t, doc.URI)
	if _, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Error(err)
	}
	_, err := conn.Exec(t.Context(), "SET ROLE "+b.rw)
	var said string
	for _, f := range d.CheckSetup(t.Context()) {
		if strings.Contains(f.What, "SET ROLE") {
			said += f.What
		}
	}
	if conn.PgConn().ParameterStatus("server_version") < "16" {
		if err != nil || !strings.Contains(said, b.rw) || strings.Contains(said, b.ro) {
			t.Errorf("%v; the set-up says %q", err, said)
		}
		return
	}
	if pe, is := errors.AsType[*pgconn.PgError](err); !is || pe.Code != "42501" || said != "" {
		t.Errorf("SET ROLE: %v; the set-up says %q", err, said)
	}
	for _, s := range []string{"SET SESSION AUTHORIZATION " + b.rw, "ALTER TABLE t OWNER TO " + b.rw, "CREATE TABLE x (a int); ALTER TABLE x OWNER TO " + b.rw, "CREATE SCHEMA s AUTHORIZATION " + b.rw} {
		if _, err := conn.Exec(t.Context(), s); err == nil {
			t.Errorf("a lease may %s", s)
		}
	}
}

// TestNothingOfAGroupRoleRunsAsTheOwner: ANALYZE computes the expressions of indexes, and the
// lengths of ranges, with the rights of the table's owner. Functions of other roles remain
// when the lease ends, so the parts of its tables that call them are dropped.
func TestNothingOfAGroupRoleRunsAsTheOwner(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.cfg.Owner = b.kept
	for _, s := range []string{
		"CREATE TABLE ran (who text)", "GRANT INSERT ON ran TO PUBLIC",
		// The group role's own, which its members may replace.
		"SET ROLE " + b.rw + "; CREATE FUNCTION public.tell() RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.ran VALUES (current_user); END'; " +
			"CREATE FUNCTION public.note(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM public.tell(); RETURN a; END'; " +
			"CREATE FUNCTION public.far(a float8, b float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM public.tell(); RETURN a - b; END'; " +
			"CREATE TYPE public.span AS RANGE (SUBTYPE = float8, SUBTYPE_DIFF = public.far); CREATE DOMAIN public.spans AS public.span; CREATE DOMAIN public.more AS public.spans; " +
			"CREATE DOMAIN public.odd AS int CHECK (public.note(VALUE) > -1); CREATE OPERATOR public.## (RIGHTARG = int, FUNCTION = public.note)",
	} {
		storetest.PostgresExec(t, b.admin, s)
	}
	d := b.driver(t)
	g, c, doc := b.mint(t, d, "write")
	conn := connect(t, doc.URI)
	for _, s := range []string{
		"CREATE TABLE mine (a int, r span, m more)", "INSERT INTO mine SELECT i, span(i, i + 1), span(i, i + 1)::more FROM generate_series(1, 100) i",
		"CREATE INDEX i1 ON mine (note(a))", "CREATE INDEX i2 ON mine (a) WHERE note(a) > 7", "CREATE INDEX i3 ON mine ((## a))", "CREATE INDEX i4 ON mine (((a + 0)::odd))",
		"CREATE INDEX good ON mine (a)", "CREATE INDEX also ON mine (abs(a))",
		"CREATE TABLE parts (a int) PARTITION BY LIST (a)", "CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1)", "CREATE INDEX i5 ON parts (note(a))", "INSERT INTO parts VALUES (1)",
	} {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	storetest.PostgresExec(t, b.admin, "DELETE FROM ran")
	for _, s := range []string{"ANALYZE mine", "ANALYZE parts", "REINDEX TABLE mine"} {
		storetest.PostgresExec(t, b.admin, s)
	}
	if who := b.texts(t, "SELECT DISTINCT who FROM ran"); len(who) > 0 {
		t.Errorf("a function of %s ran as %q", b.rw, who)
	}
	if got := b.texts(t, "SELECT indexname::text FROM pg_indexes WHERE tablename IN ('mine', 'parts', 'part1') ORDER BY 1"); !slices.Equal(got, []string{"also", "good"}) {
		t.Errorf("indexes: %q", got)
	}
	if got := b.texts(t, "SELECT tableowner || count(*) FROM pg_tables, mine WHERE tablename = 'mine' GROUP BY tableowner"); !slices.Equal(got, []string{b.kept + "100"}) {
		t.Errorf("the table and its rows: %q", got)
	}
}
