package main

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// composeSecrets runs the commands of docs/how-to/deploy-with-compose.md that
// create the files of docker-compose.yml, and returns their directory.
func composeSecrets(t *testing.T) string {
	t.Helper()
	counterpart.Program(t, "openssl")
	page, err := os.ReadFile("../../docs/how-to/deploy-with-compose.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n```sh\n")
	block, _, ok := strings.Cut(rest, "\n```\n")
	if !ok {
		t.Fatal("the page has no commands")
	}
	cmd := exec.Command("sh", "-euc", block)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(cmd.Dir, ".ebb/secrets")
}

// TestComposeSecrets: the commands create every file that docker-compose.yml
// names, accessible to its owner only, and each run creates different ones.
func TestComposeSecrets(t *testing.T) {
	t.Parallel()
	compose, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	one, two := composeSecrets(t), composeSecrets(t)
	files := regexp.MustCompile(`(?m)file: \.ebb/secrets/(\S+) \}$`).FindAllSubmatch(compose, -1)
	if len(files) < 6 {
		t.Fatalf("docker-compose.yml names %d secrets", len(files))
	}
	for _, f := range files {
		name := string(f[1])
		a, err := os.ReadFile(filepath.Join(one, name))
		if err != nil {
			t.Error(err)
			continue
		}
		b, err := os.ReadFile(filepath.Join(two, name))
		if err != nil || string(a) == string(b) {
			t.Errorf("%s is the same each time: %v", name, err)
		}
		if info, err := os.Stat(filepath.Join(one, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others can read %s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestComposeRoles: the role that migrates owns the database of ebb and is
// nothing more. The role of ebb itself may create no table. The Redis user may
// use no dangerous command and only ebb's keys. They are sufficient for ebb to
// migrate, start and work.
func TestComposeRoles(t *testing.T) {
	t.Parallel()
	server := counterpart.Need(t, "EBB_TEST_POSTGRES")
	compose, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(compose), "POSTGRES_USER") || !strings.Contains(string(compose), "EBB_DATABASE: postgres://ebb@") {
		t.Error("the image makes POSTGRES_USER a superuser, and ebb must be the role ebb")
	}
	secrets := composeSecrets(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	name := composeRoles(t, server, secrets)
	role := func(user, file string) *url.URL {
		password, err := os.ReadFile(filepath.Join(secrets, file))
		if err != nil {
			t.Fatal(err)
		}
		as := *u
		as.User, as.Path = url.UserPassword(user, strings.TrimSpace(string(password))), "/"+name
		return &as
	}
	if _, err := sqlstore.Migrate(t.Context(), sqlstore.Config{URL: role(name+"_owner", "ebb-owner-postgres-password").String()}); err != nil {
		t.Fatal(err)
	}
	composeRights(t, server, name, role(name, "ebb-postgres-password").String())
	u.User, u.Path = url.User(name), "/"+name
	live := redistest.Run(t, "--aclfile", filepath.Join(secrets, "redis.acl"))
	people, keys, err := withKeys([]broker.Principal{{ID: "runner", Roles: []broker.Role{broker.RoleRunner}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed(t.Context(), embedding{
		Environ: []string{
			"EBB_DATABASE=" + u.String(), "EBB_DATABASE_PASSWORD_FILE=" + filepath.Join(secrets, "ebb-postgres-password"),
			"EBB_REDIS_ADDRS=" + live.Addr, "EBB_REDIS_USERNAME=ebb", "EBB_REDIS_PASSWORD_FILE=" + filepath.Join(secrets, "ebb-redis-password"),
		}, People: people,
		Providers: []config.Provider{{Name: "local", Kind: "jwt", Resource: "https://local.test"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.end(); err != nil {
			t.Error(err)
		}
	})
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: e.url}, ClientID: "runner", Key: keys["runner"]})
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := o.Tasks.Open(t.Context(), wire.TaskSpec{Name: "n", Kind: "k", Owner: "o", TTL: 600, Ceiling: "local:a/**:*", Expect: wire.Expect{Attestor: "enroll"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Tasks.Complete(t.Context(), task.ID); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(secrets, "ebb-redis-password"))
	if err != nil {
		t.Fatal(err)
	}
	user := redis.NewClient(&redis.Options{Addr: live.Addr, Username: "ebb", Password: strings.TrimSpace(string(text))})
	defer user.Close() //nolint:errcheck // read only
	for _, command := range [][]any{{"FLUSHALL"}, {"CONFIG", "GET", "*"}, {"ACL", "LIST"}, {"GET", "other"}} {
		if err := user.Do(t.Context(), command...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%v: %v", command, err)
		}
	}
}

// composeRoles runs the files that create the roles and their database, under
// other names because tests share the server. It returns the name of the
// database, which is also that of ebb's role; the other is that name with
// _owner.
func composeRoles(t *testing.T, server, secrets string) (name string) {
	t.Helper()
	counterpart.Program(t, "psql")
	name = "ebb_compose_" + strings.ToLower(rand.Text())
	args := []string{server, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"}
	for _, file := range []string{"../../docs/deploy/postgres-roles.sql", filepath.Join(secrets, "postgres-passwords.sql")} {
		sql, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		renamed := filepath.Join(t.TempDir(), "renamed.sql")
		if err := os.WriteFile(renamed, regexp.MustCompile(`\bebb(_owner)?\b`).ReplaceAll(sql, []byte(name+"$1")), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--file="+renamed)
	}
	t.Cleanup(func() { dropCompose(t, server, name) })
	if out, err := exec.Command("psql", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return name
}

// composeRights checks that the two roles have no right on the server. role is the
// URL of the role of ebb serve, with its password: composeRights checks that this
// role cannot create or change a table, and cannot change or delete audit entries.
func composeRights(t *testing.T, server, name, role string) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	var more int
	if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_roles WHERE rolname IN ($1, $2) AND NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)",
		name, name+"_owner").Scan(&more); err != nil || more != 2 {
		t.Errorf("%d of the two roles have no right on the server, %v", more, err)
	}
	conn, err := pgx.Connect(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{"CREATE TABLE mine (a int)", "CREATE TEMPORARY TABLE mine (a int)", "ALTER TABLE tasks ADD COLUMN a int", "DROP TABLE audit_entries", "TRUNCATE audit_entries", "CREATE SCHEMA mine",
		"DELETE FROM audit_entries", "UPDATE audit_entries SET hash = ''", "DELETE FROM checkpoints", "UPDATE checkpoints SET at = 0", "SELECT 1 FROM audit_entries FOR UPDATE"} {
		if _, err := conn.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "SQLSTATE 42501") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func dropCompose(t *testing.T, server, name string) {
	t.Helper()
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Error(err)
		return
	}
	defer admin.Close(ctx)
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "DROP ROLE IF EXISTS " + name + ", " + name + "_owner"} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			t.Error(err)
		}
	}
}
