package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/postgres"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/storetest"
	"github.com/ebb-broker/ebb/scopes"
)

const instance = "0a1b2c3d"

// bed is a database of its own on a real server, with group roles and a role for
// the broker that is no superuser.
type bed struct {
	admin string // URL of a superuser in the database
	db    string
	ro    string // group role that may read table t
	rw    string // group role that may also write it, and create tables
	kept  string // role for what leases leave
	cfg   postgres.Config
}

func newBed(t *testing.T) bed {
	t.Helper()
	b := bed{admin: storetest.Postgres(t)}
	u, err := url.Parse(b.admin)
	if err != nil {
		t.Fatal(err)
	}
	b.db = strings.TrimPrefix(u.Path, "/")
	suffix := strings.TrimPrefix(b.db, "ebb_test_")
	b.ro, b.rw, b.kept = "ro_"+suffix, "rw_"+suffix, "kept_"+suffix
	me := "broker_" + suffix
	for _, s := range []string{
		"CREATE ROLE " + b.ro + " NOLOGIN", "CREATE ROLE " + b.rw + " NOLOGIN", "CREATE ROLE " + b.kept + " NOLOGIN",
		"CREATE ROLE " + me + " LOGIN CREATEROLE PASSWORD 'broker-pw'",
		"GRANT pg_signal_backend TO " + me, "GRANT " + b.ro + ", " + b.rw + " TO " + me + " WITH ADMIN OPTION", "GRANT " + b.kept + " TO " + me,
		"REVOKE CONNECT, TEMPORARY ON DATABASE " + b.db + " FROM PUBLIC",
		"GRANT CONNECT ON DATABASE " + b.db + " TO " + b.ro + ", " + b.rw + ", " + me,
		"CREATE TABLE t (id int)", "GRANT SELECT ON t TO " + b.ro, "GRANT SELECT, INSERT ON t TO " + b.rw,
		"GRANT CREATE ON SCHEMA public TO " + b.rw,
	} {
		storetest.PostgresExec(t, b.admin, s)
	}
	t.Cleanup(func() {
		storetest.PostgresExec(t, b.admin, "DROP OWNED BY "+b.ro+", "+b.rw+", "+b.kept+", "+me)
		storetest.PostgresExec(t, b.admin, "DROP ROLE "+b.ro+", "+b.rw+", "+b.kept+", "+me)
	})
	pw := filepath.Join(t.TempDir(), "pw")
	if err := os.WriteFile(pw, []byte("broker-pw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := *u
	mine.User = url.User(me)
	b.cfg = postgres.Config{
		URL: mine.String(), PasswordFile: pw, SSLMode: "disable", Connections: 3,
		Databases: map[string]map[string]string{b.db: {"read": b.ro, "write": b.rw}},
	}
	return b
}

func (b bed) driver(t *testing.T) *postgres.Driver {
	t.Helper()
	d, err := postgres.New(b.cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func lease() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return "lse_" + hex.EncodeToString(b)
}

func (b bed) grant(action string) provider.Grant {
	now := time.Now().Truncate(time.Second)
	return provider.Grant{
		LeaseID: lease(), Instance: instance, TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "ann",
		Scopes: scopes.MustParseSet("db:" + b.db + ":" + action), IssuedAt: now, ExpiresAt: now.Add(10 * time.Minute),
	}
}

func targetOf(g provider.Grant, h secret.Secret) provider.Target {
	return provider.Target{LeaseID: g.LeaseID, Instance: g.Instance, TaskID: g.TaskID, Scopes: g.Scopes, Handle: h, IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, Now: g.IssuedAt}
}

type credential struct{ URI, Host, Port, Database, User, Password, SSLMode string }

func (b bed) mint(t *testing.T, d *postgres.Driver, action string) (provider.Grant, provider.Credential, credential) {
	t.Helper()
	g := b.grant(action)
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	var doc credential
	if err := json.Unmarshal([]byte(c.Token.Reveal()), &doc); err != nil {
		t.Fatal(err)
	}
	return g, c, doc
}

func connect(t *testing.T, uri string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestConformance(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	providertest.Run(t, providertest.Subject{
		Driver: b.driver(t), Grant: func() provider.Grant { return b.grant("read") }, Unsupported: "db:" + b.db + ":drop",
		Alive: func(ctx context.Context, c provider.Credential) (bool, error) {
			var doc credential
			if err := json.Unmarshal([]byte(c.Token.Reveal()), &doc); err != nil {
				return false, err
			}
			conn, err := pgx.Connect(ctx, doc.URI)
			if err != nil {
				return false, nil
			}
			return true, conn.Close(ctx)
		},
	})
}

func TestScopesMeanTheirGroupRoles(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.driver(t)
	_, _, reader := b.mint(t, d, "read")
	conn := connect(t, reader.URI)
	if _, err := conn.Exec(t.Context(), "SELECT * FROM t"); err != nil {
		t.Errorf("reading: %v", err)
	}
	for _, no := range []string{"INSERT INTO t VALUES (1)", "CREATE TABLE mine (a int)", "CREATE ROLE x", "SET ROLE " + b.rw, "SELECT pg_read_file('/etc/passwd')"} {
		if _, err := conn.Exec(t.Context(), no); err == nil {
			t.Errorf("a reader may %s", no)
		}
	}
	_, _, writer := b.mint(t, d, "write")
	if _, err := connect(t, writer.URI).Exec(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Errorf("writing: %v", err)
	}
	for _, bad := range []string{"db:" + b.db + ":*", "db:*:read", "db:**:read", "db:" + b.db + "/t:read", "db:other:read", "db:postgres:read"} {
		if err := d.Check(scopes.MustParseSet(bad)); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Check(%s) = %v", bad, err)
		}
	}
}

// TestRevokeEndsOpenSessions: I2 at the provider: open sessions end, and the role cannot log
// in again.
func TestRevokeEndsOpenSessions(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.driver(t)
	g, c, doc := b.mint(t, d, "read")
	other, otherCred, neighbour := b.mint(t, d, "read")
	sessions := []*pgx.Conn{connect(t, doc.URI), connect(t, doc.URI)}
	stays := connect(t, neighbour.URI)
	if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); err != nil || !alive {
		t.Fatalf("Probe before = %v, %v", alive, err)
	}
	busy := make(chan error, 1)
	go func() { _, err := sessions[1].Exec(context.Background(), "SELECT pg_sleep(30)"); busy <- err }()
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if _, err := sessions[0].Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("an idle session goes on")
	}
	if err := <-busy; err == nil {
		t.Error("a busy session went on to its end")
	}
	if _, err := pgx.Connect(t.Context(), doc.URI); err == nil {
		t.Error("the role logs in")
	}
	if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); err != nil || alive {
		t.Errorf("Probe after = %v, %v", alive, err)
	}
	if _, err := stays.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("a neighbour's session ended too: %v", err)
	}
	if alive, err := d.Probe(t.Context(), targetOf(other, otherCred.Handle)); err != nil || !alive {
		t.Errorf("Probe of the neighbour = %v, %v", alive, err)
	}
	if err := d.Revoke(t.Context(), targetOf(other, secret.Secret{})); err != nil { // an intent whose answer was lost
		t.Error(err)
	}
	if _, err := stays.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("without a handle the session goes on")
	}
}

// TestRevokeOfADroppedRole: an operator drops the role manually while a session of it is open.
// Revoke finds that session only by the role's oid.
func TestRevokeOfADroppedRole(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.driver(t)
	g, c, doc := b.mint(t, d, "read")
	conn := connect(t, doc.URI)
	storetest.PostgresExec(t, b.admin, "DROP ROLE \""+doc.User+"\"")
	if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); err != nil || !alive {
		t.Fatalf("Probe = %v, %v: the session is open", alive, err)
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the session goes on")
	}
}

// TestGroupRoleIsDropped: an administrator drops the group role of a scope. Its members lose
// the rights at once, minted roles can still be revoked, and no further role is minted.
func TestGroupRoleIsDropped(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.driver(t)
	g, c, doc := b.mint(t, d, "read")
	conn := connect(t, doc.URI)
	storetest.PostgresExec(t, b.admin, "DROP OWNED BY "+b.ro)
	storetest.PostgresExec(t, b.admin, "DROP ROLE "+b.ro)
	t.Cleanup(func() { storetest.PostgresExec(t, b.admin, "CREATE ROLE "+b.ro) }) // for the bed's own
	if _, err := conn.Exec(t.Context(), "SELECT * FROM t"); err == nil {
		t.Error("it reads on")
	}
	_, err := d.Mint(t.Context(), b.grant("read"))
	if r, is := errors.AsType[*provider.RefusedError](err); !is || !strings.Contains(r.Public, "does not exist in the database any more") {
		t.Errorf("Mint = %v", err)
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); err != nil || alive {
		t.Errorf("Probe = %v, %v", alive, err)
	}
}

// TestRevokeOfARoleThatOwnsThings: Revoke drops a role that made tables, has grants and holds
// a row lock. Its tables go to the configured owner, if there is one.
func TestRevokeOfARoleThatOwnsThings(t *testing.T) {
	t.Parallel()
	for _, owner := range []bool{false, true} {
		b := newBed(t)
		if owner {
			b.cfg.Owner = b.kept
		}
		d := b.driver(t)
		g, c, doc := b.mint(t, d, "write")
		conn := connect(t, doc.URI)
		for _, s := range []string{"CREATE TABLE mine (a int)", "CREATE VIEW v AS SELECT * FROM mine", "GRANT SELECT ON mine TO " + b.ro, "BEGIN", "LOCK TABLE mine"} {
			if _, err := conn.Exec(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
			t.Fatalf("owner %v: %v", owner, err)
		}
		var tables int
		if err := connect(t, b.admin).QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE tablename = 'mine'").Scan(&tables); err != nil {
			t.Fatal(err)
		}
		if (tables == 1) != owner {
			t.Errorf("owner %v: the table exists %d times", owner, tables)
		}
	}
}

func TestServerMakesTheSameVerifier(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	_, _, doc := b.mint(t, b.driver(t), "read")
	var stored string
	if err := connect(t, b.admin).QueryRow(t.Context(), "SELECT rolpassword FROM pg_authid WHERE rolname = $1", doc.User).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stored, "SCRAM-SHA-256$4096:") || strings.Contains(stored, doc.Password) {
		t.Errorf("the server stores %.20s...", stored)
	}
	connect(t, doc.URI) // and it opens
}

func TestListNamesOursAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.driver(t)
	g, c, _ := b.mint(t, d, "read")
	foreign := "ebb-ffffffff-" + strings.TrimPrefix(lease(), "lse_")
	storetest.PostgresExec(t, b.admin, "CREATE ROLE \""+foreign+"\"")
	t.Cleanup(func() { storetest.PostgresExec(t, b.admin, "DROP ROLE \""+foreign+"\"") })
	var mine *provider.Target
	err := d.List(t.Context(), instance, func(x provider.Target) error {
		if x.LeaseID == g.LeaseID {
			mine = &x
		}
		if strings.Contains(x.LeaseID, strings.TrimPrefix(foreign, "ebb-ffffffff-")) {
			t.Error("a role of another installation is listed")
		}
		return nil
	})
	if err != nil || mine == nil {
		t.Fatalf("List = %v, found %v", err, mine != nil)
	}
	if mine.Handle.Reveal() != c.Handle.Reveal() {
		t.Error("what is listed cannot be revoked like what was minted")
	}
	bad := targetOf(g, secret.New(`{"role":"`+foreign+`","oid":1}`))
	if err := d.Revoke(t.Context(), bad); err == nil {
		t.Error("a handle that names somebody else's role is followed")
	}
	if err := d.Revoke(t.Context(), targetOf(g, secret.New("{"))); err == nil {
		t.Error("a damaged handle is followed")
	}
}

func TestSetupIsJudged(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	fatal := func(c postgres.Config) string {
		t.Helper()
		d, err := postgres.New(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range d.CheckSetup(t.Context()) {
			if f.What == "" || f.Remedy == "" {
				t.Errorf("finding %+v says too little", f)
			}
			if f.Fatal {
				out = append(out, f.What)
			}
		}
		return strings.Join(out, " ")
	}
	if got := fatal(b.cfg); got != "" {
		t.Errorf("a good set-up: %s", got)
	}
	with := func(role string) postgres.Config {
		c := b.cfg
		c.Databases = map[string]map[string]string{b.db: {"read": role}}
		return c
	}
	mighty := "mighty_" + strings.TrimPrefix(b.db, "ebb_test_")
	storetest.PostgresExec(t, b.admin, "CREATE ROLE "+mighty+" NOLOGIN")
	storetest.PostgresExec(t, b.admin, "GRANT pg_execute_server_program TO "+mighty)
	t.Cleanup(func() { storetest.PostgresExec(t, b.admin, "DROP ROLE "+mighty) })
	for role, want := range map[string]string{"nobody_here": "does not exist", mighty: "administrator"} {
		if got := fatal(with(role)); !strings.Contains(got, want) {
			t.Errorf("group role %s: %q", role, got)
		}
	}
	for role, want := range map[string]string{"nobody_here": "does not exist", b.kept: "", mighty: "may not give tables", strings.Replace(b.ro, "ro_", "broker_", 1): "broker's own"} {
		c := b.cfg
		c.Owner = role
		if got := fatal(c); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("owner %s: %q", role, got)
		}
	}
	g := b.grant("read")
	d, err := postgres.New(with("nobody_here"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Mint(t.Context(), g); !errors.Is(err, provider.ErrRefused) || strings.Contains(err.Error(), "SCRAM") {
		t.Errorf("Mint without its group role = %v", err)
	}
	away := b.cfg
	away.URL = "postgres://ebb@127.0.0.1:1/postgres?sslmode=disable"
	if got := fatal(away); !strings.Contains(got, "reached") {
		t.Errorf("a server that is away: %q", got)
	}
	d, err = postgres.New(away, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Mint(t.Context(), g); err == nil || errors.Is(err, provider.ErrRefused) {
		t.Errorf("Mint while the server is away = %v: nobody knows", err)
	}
	if err := d.Revoke(t.Context(), targetOf(g, secret.Secret{})); err == nil {
		t.Error("Revoke while the server is away succeeds")
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	good := func() postgres.Config {
		return postgres.Config{URL: "postgres://ebb@db.test:5432/postgres?sslmode=verify-full", Databases: map[string]map[string]string{"orders": {"read": "orders_ro"}}}
	}
	if _, err := postgres.New(good(), nil); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*postgres.Config){
		"no url":            func(c *postgres.Config) { c.URL = "" },
		"not postgres":      func(c *postgres.Config) { c.URL = "mysql://ebb@db.test/x" },
		"password":          func(c *postgres.Config) { c.URL = "postgres://ebb:canary@db.test/x?sslmode=verify-full" },
		"password in query": func(c *postgres.Config) { c.URL = "postgres://ebb@db.test/x?sslmode=verify-full&password=canary" },
		"no password file":  func(c *postgres.Config) { c.PasswordFile = "/nowhere/canary-is-no-secret-here" },
		"no database":       func(c *postgres.Config) { c.Databases = nil },
		"no action":         func(c *postgres.Config) { c.Databases["orders"] = nil },
		"pattern":           func(c *postgres.Config) { c.Databases["*"] = map[string]string{"read": "x"} },
		"slash":             func(c *postgres.Config) { c.Databases["a/b"] = map[string]string{"read": "x"} },
		"any action":        func(c *postgres.Config) { c.Databases["orders"]["*"] = "x" },
		"quote":             func(c *postgres.Config) { c.Databases["orders"]["read"] = `x"; DROP TABLE t; --` },
		"own role":          func(c *postgres.Config) { c.Databases["orders"]["read"] = "pg_write_all_data" },
		"public":            func(c *postgres.Config) { c.Databases["orders"]["read"] = "public" },
		"owner":             func(c *postgres.Config) { c.Owner = "pg_monitor" },
		"owner is a group":  func(c *postgres.Config) { c.Owner = "orders_ro" },
		"connections":       func(c *postgres.Config) { c.Connections = -1 },
		"sslmode":           func(c *postgres.Config) { c.SSLMode = "prefer" },
		"address":           func(c *postgres.Config) { c.Address = "db.test" },
	} {
		c := good()
		spoil(&c)
		if _, err := postgres.New(c, nil); err == nil || name != "no password file" && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: New = %v", name, err)
		}
	}
}
