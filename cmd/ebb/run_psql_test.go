package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/storetest"
)

// withDatabase adds a provider of roles in a database of a real PostgreSQL,
// which sandboxes reach as db.example.com, and returns its scope, its port, and
// the URL of a superuser.
func (b *outBed) withDatabase() (scope, port, admin string) {
	b.t.Helper()
	admin = storetest.Postgres(b.t)
	u, err := url.Parse(admin)
	if err != nil {
		b.t.Fatal(err)
	}
	name, group := strings.TrimPrefix(u.Path, "/"), "ro_"+strings.TrimPrefix(u.Path, "/")
	for _, s := range []string{"CREATE ROLE " + group + " NOLOGIN", "CREATE TABLE t (id int)", "INSERT INTO t VALUES (42)", "GRANT SELECT ON t TO " + group} {
		storetest.PostgresExec(b.t, admin, s)
	}
	b.t.Cleanup(func() {
		storetest.PostgresExec(b.t, admin, "DROP OWNED BY "+group)
		storetest.PostgresExec(b.t, admin, "DROP ROLE "+group)
	})
	password, _ := u.User.Password()
	b.write("password", password+"\n")
	u.User = url.User(u.User.Username())
	config, err := os.ReadFile(filepath.Join(b.home, "ebb.yaml"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.write("ebb.yaml", strings.Replace(string(config), "private_hosts: [", "private_hosts: [db.example.com=127.0.0.1/32, ", 1)+fmt.Sprintf(`
  - name: db
    kind: postgres
    resource: https://db.example.com
    config: {url: %q, password_file: %s/password, sslmode: disable, address: "db.example.com:%s", databases: {%s: {read: %s}}}
`, u.String(), b.home, u.Port(), name, group))
	b.write("hosts", "127.0.0.1 localhost api.example.com db.example.com\n")
	return "db:" + name + ":read", u.Port(), admin
}

// TestRunPsql: unmodified psql reads a database, cancels a query, and is
// refused what its role may not do, with a placeholder as its password.
func TestRunPsql(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	installed(t, "psql")
	scope, port, admin := b.withDatabase()
	b.serve()
	b.put()
	out, errs := b.run(`echo "$PGPASSWORD"; psql -XAt -c 'SELECT id FROM t' -c '\copy t TO STDOUT'
		psql -XAt "user=postgres sslmode=disable" -c 'SELECT current_user'
		psql -XAt -c 'INSERT INTO t VALUES (1)'
		psql -XAt "options='-c role=postgres'" -c 'SELECT 1'
		psql -XAt "dbname=postgres" -c 'SELECT 1'
		PGPASSWORD=mine psql -XAt -c 'SELECT 1'
		psql -XAt "sslmode=require" -c 'SELECT 1'
		psql -XAt -c 'SELECT pg_sleep(600)' & id=$!
		until [ "$(psql -XAt -c "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND usename = current_user")" = 1 ]; do sleep 0.1; done
		kill -INT $id; wait $id; true`, "--scope", "db:**:*", "--pg", scope)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "ebb-placeholder.lse_") || lines[1] != "42" || lines[2] != "42" || !strings.HasPrefix(lines[3], "ebb-") {
		t.Errorf("%s%s", out, errs)
	}
	for _, want := range []string{
		"permission denied for table t", "parameter that ebb does not allow", "The credential is for another database", "The password is not a placeholder", "server does not support SSL",
		"canceling statement due to user request", "2 credential(s) revoked",
	} {
		if strings.Count(errs, want) != 1 {
			t.Errorf("%q is not said once:\n%s", want, errs)
		}
	}
	name := strings.Split(scope, ":")[1]
	if out, errs = b.run(`psql -XAt "host=db.example.com port=$PORT dbname=$NAME" -c 'SELECT id FROM t'`, "--scope", "db:**:*",
		"--host", "db.example.com:"+port, "--credential", "PGPASSWORD="+scope, "--env", "PORT="+port, "--env", "NAME="+name); strings.TrimSpace(out) != "42" {
		t.Errorf("by a host and a variable: %s%s", out, errs)
	}
	conn, err := pgx.Connect(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE g.rolname = 'ro_' || current_database()").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d roles are left, %v", left, err)
	}
}
