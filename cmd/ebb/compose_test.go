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
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// composeSecrets runs the commands of docs/operations.md that create the files
// of docker-compose.yml, except those that need root or Docker, and returns
// their directory.
func composeSecrets(t *testing.T) string {
	t.Helper()
	counterpart.Program(t, "openssl")
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "### Secrets\n\n```sh\n")
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/operations.md has no commands under Secrets")
	}
	cmd := exec.Command("sh", "-euc", regexp.MustCompile(`(?m)^(sudo|docker|cd \.\./\.\.) .*$`).ReplaceAllString(block, ""))
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

// TestComposeRoles: the role of docker-compose.yml is not a superuser of
// PostgreSQL and owns only its database. Its Redis user may use no dangerous
// command and only ebb's keys. Both are sufficient for ebb to migrate, start
// and work.
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
	name := composeRole(t, server, filepath.Join(secrets, "postgres-role.sql"))
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

// composeRole runs the file that creates the PostgreSQL role and its database,
// under another name because tests share the server, and checks the role's
// permissions.
func composeRole(t *testing.T, server, file string) (name string) {
	t.Helper()
	sql, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name = "ebb_compose_" + strings.ToLower(rand.Text())
	admin, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	for line := range strings.Lines(regexp.MustCompile(`\bebb\b`).ReplaceAllString(string(sql), name)) {
		if _, err := admin.Exec(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { dropCompose(t, server, name) })
	var more bool
	var owner string
	if err := admin.QueryRow(t.Context(), "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls FROM pg_roles WHERE rolname = $1", name).Scan(&more); err != nil || more {
		t.Errorf("the role is more than a role: %v, %v", more, err)
	}
	if err := admin.QueryRow(t.Context(), "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = $1", name).Scan(&owner); err != nil || owner != name {
		t.Errorf("the database belongs to %q, %v", owner, err)
	}
	return name
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
	for _, sql := range []string{"DROP DATABASE " + name + " WITH (FORCE)", "DROP ROLE " + name} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			t.Error(err)
		}
	}
}
