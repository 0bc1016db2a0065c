package postgres_test

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/storetest"
)

// TestNothingOfALeaseRunsAsTheBroker: CVE-2018-1058. A lease leaves an aggregate that matches
// a call of the broker better than PostgreSQL's own function, and waits until the broker ends
// the lease. The search path in the URL makes no difference.
func TestNothingOfALeaseRunsAsTheBroker(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "&search_path=public", "&options=-csearch_path%3Dpublic"} {
		b := newBed(t)
		b.cfg.URL += path
		storetest.PostgresExec(t, b.admin, "CREATE TABLE ran (who text)")
		storetest.PostgresExec(t, b.admin, "GRANT INSERT ON ran TO PUBLIC")
		d := b.driver(t)
		g, c, doc := b.mint(t, d, "write")
		conn := connect(t, doc.URI)
		for _, s := range []string{
			"CREATE FUNCTION public.step(n bigint, b boolean) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.ran VALUES (current_user); RETURN n + 1; END'",
			"CREATE AGGREGATE public.count(boolean) (SFUNC = public.step, STYPE = bigint, INITCOND = '0')",
			"CREATE FUNCTION public.note(a oid, b oid) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.ran VALUES (current_user); RETURN true; END'",
			"CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = public.note)",
			"CREATE TABLE public.pg_roles (rolname name, oid oid)",
		} {
			if _, err := conn.Exec(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		d.CheckSetup(t.Context())
		if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); err != nil || !alive {
			t.Errorf("Probe = %v, %v", alive, err)
		}
		if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
			t.Errorf("%q: Revoke = %v", path, err)
		}
		var ran []string
		rows, err := connect(t, b.admin).Query(t.Context(), "SELECT who FROM ran")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var who string
			if err := rows.Scan(&who); err != nil {
				t.Fatal(err)
			}
			ran = append(ran, who)
		}
		if rows.Err() != nil || len(ran) > 0 {
			t.Errorf("%q: a lease's code ran as %s, %v", path, strings.Join(ran, ", "), rows.Err())
		}
	}
}
