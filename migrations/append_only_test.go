package migrations_test

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/migrations"
)

// For any name of the owner and of the schema, and for any grant, only the owner may change rows of
// the audit log and of the list of migrations. Providers name roles such as ebb@project.iam.
func TestAppendOnly(t *testing.T) {
	t.Parallel()
	server := counterpart.Need(t, "EBB_TEST_POSTGRES")
	for name, form := range map[string]string{"plain": "NAME", "address": "NAME@project.iam", "upper case": "Name_NAME", "quote": `NAME"x`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, admin := "ebb_append_"+strings.ToLower(rand.Text()), handle(t, "pgx", server)
			owner := strings.ReplaceAll(form, "NAME", db)
			role, others := `"`+strings.ReplaceAll(owner, `"`, `""`)+`"`, db+"_a, "+db+"_b"
			exec(t, admin, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'; CREATE ROLE "+db+"_a; CREATE ROLE "+db+"_b; GRANT "+db+"_a TO "+role)
			exec(t, admin, "CREATE DATABASE "+db+" OWNER "+role)
			t.Cleanup(func() {
				exec(t, admin, "DROP DATABASE "+db+" WITH (FORCE)")
				exec(t, admin, "DROP ROLE "+role+", "+others)
			})
			u, err := url.Parse(server)
			if err != nil {
				t.Fatal("EBB_TEST_POSTGRES is not a URL")
			}
			q := u.Query()
			q.Set("search_path", role)
			u.Path, u.User, u.RawQuery = "/"+db, url.UserPassword(owner, "x"), q.Encode()
			own := handle(t, "pgx", u.String())
			exec(t, own, "CREATE SCHEMA "+role+"; GRANT USAGE ON SCHEMA "+role+" TO "+others)
			exec(t, own, "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO "+db+"_a; ALTER DEFAULT PRIVILEGES GRANT SELECT, DELETE ON TABLES TO PUBLIC")
			for range 2 {
				if _, err := migrations.Apply(t.Context(), own, migrations.Postgres); err != nil {
					t.Fatal(err)
				}
				for _, table := range []string{"audit_entries", "audit_writers", "checkpoints", "meta"} {
					for _, right := range []string{"UPDATE", "DELETE", "TRUNCATE"} {
						if n := count(t, own, "SELECT count(*) FROM pg_roles WHERE NOT rolsuper AND rolname IN ('"+db+"_a', '"+db+"_b') AND has_table_privilege(oid, '"+table+"', '"+right+"')"); n > 0 {
							t.Errorf("%d roles have the right to %s %s", n, right, table)
						}
					}
					if n := count(t, own, "SELECT has_table_privilege('"+db+"_a', '"+table+"', 'INSERT')::int"); n != 1 {
						t.Errorf("no role can insert into %s", table)
					}
				}
				exec(t, own, "GRANT DELETE ON audit_entries TO "+db+"_a WITH GRANT OPTION; SET ROLE "+db+"_a; GRANT DELETE ON audit_entries TO "+db+"_b; RESET ROLE")
			}
		})
	}
}
