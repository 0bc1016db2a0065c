package vault_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/provider/vault"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/storetest"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/broker/vaultapi/vaulttest"
	"github.com/ebb-broker/ebb/scopes"
)

const instance = "0a1b2c3d"

// bed is a real Vault whose database engine makes roles in a real PostgreSQL, over
// a connection that can be cut.
type bed struct {
	*vaulttest.Server
	url   string // of the database, as its superuser
	mount string
	db    *vaulttest.Proxy
	cfg   vault.Config
}

func newBed(t *testing.T) bed {
	t.Helper()
	b := bed{Server: vaulttest.New(t), url: storetest.Postgres(t)}
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	b.db = vaulttest.NewProxy(t, u.Host)
	b.mount = b.Mount(t, "database")
	password, _ := u.User.Password()
	b.Write(t, b.mount+"/config/pg", map[string]any{
		"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "username": u.User.Username(), "password": password,
		"connection_url": "postgresql://{{username}}:{{password}}@" + b.db.Address + u.Path + "?sslmode=disable&connect_timeout=2",
	})
	b.role(t, "ro", "2m")
	reader := b.Policy(t, "reader", fmt.Sprintf(`path "%s/creds/*" { capabilities = ["read"] }`, b.mount))
	tokens := b.tokenRole(t, "leases", reader)
	b.cfg = vault.Config{
		Config:    vaultapi.Config{Address: b.Address, Auth: b.AppRole(t, b.broker(t, tokens))},
		TokenRole: tokens,
		Grants: map[string]map[string]vault.Path{"orders": {
			"read":  {Path: b.mount + "/creds/ro", Policies: []string{reader}},
			"short": {Path: b.mount + "/creds/short", Policies: []string{reader}},
			"long":  {Path: b.mount + "/creds/long", Policies: []string{reader}},
			"none":  {Path: b.mount + "/creds/none", Policies: []string{reader}},
		}},
	}
	b.role(t, "short", "20s")
	b.role(t, "long", "1h")
	return b
}

// role has the statements that docs/providers/vault.md gives.
func (b bed) role(t *testing.T, name, ttl string) {
	t.Helper()
	b.Write(t, b.mount+"/roles/"+name, map[string]any{
		"db_name": "pg", "default_ttl": ttl, "max_ttl": "1h",
		"creation_statements": []string{`CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'`},
		"revocation_statements": []string{
			`ALTER ROLE "{{name}}" NOLOGIN`,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{{name}}'`,
			`DROP ROLE IF EXISTS "{{name}}"`,
		},
	})
}

func (b bed) tokenRole(t *testing.T, what string, policies ...string) string {
	t.Helper()
	name := b.Name(what)
	b.Write(t, "auth/token/roles/"+name, map[string]any{
		"orphan": true, "renewable": false, "allowed_policies": policies, "token_no_default_policy": true, "token_type": "service",
	})
	return name
}

// broker has what docs/providers/vault.md gives the broker, and nothing else.
func (b bed) broker(t *testing.T, tokenRole string) string {
	t.Helper()
	return b.Policy(t, "broker", fmt.Sprintf(`
		path "auth/token/create/%s"       { capabilities = ["create", "update"] }
		path "auth/token/revoke-accessor" { capabilities = ["create", "update"] }
		path "auth/token/lookup-accessor" { capabilities = ["create", "update"] }
		path "sys/leases/revoke"          { capabilities = ["create", "update"] }
		path "sys/leases/lookup"          { capabilities = ["create", "update"] }`, tokenRole))
}

func driver(t *testing.T, c vault.Config) *vault.Driver {
	t.Helper()
	d, err := vault.New("db", c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// saved collects what a driver saves.
type saved struct {
	handle secret.Secret
	err    error
}

func grant(action string) (provider.Grant, *saved) {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	now := time.Now()
	s := &saved{}
	return provider.Grant{
		LeaseID: "lse_" + hex.EncodeToString(id), Instance: instance, TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "ann",
		Scopes: scopes.MustParseSet("db:orders:" + action), IssuedAt: now, ExpiresAt: now.Add(2 * time.Minute),
		Save: func(_ context.Context, h secret.Secret) error { s.handle = h; return s.err },
	}, s
}

func targetOf(g provider.Grant, h secret.Secret) provider.Target {
	return provider.Target{LeaseID: g.LeaseID, Instance: g.Instance, Scopes: g.Scopes, Handle: h, IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, Now: g.IssuedAt}
}

// login opens a session with what was minted.
func (b bed) login(ctx context.Context, c provider.Credential) (*pgx.Conn, error) {
	var doc struct{ Username, Password string }
	if err := json.Unmarshal([]byte(c.Token.Reveal()), &doc); err != nil {
		return nil, err
	}
	u, err := url.Parse(b.url)
	if err != nil {
		return nil, err
	}
	u.User = url.UserPassword(doc.Username, doc.Password)
	return pgx.Connect(ctx, u.String())
}

func (b bed) mint(t *testing.T, d *vault.Driver, action string) (provider.Grant, provider.Credential) {
	t.Helper()
	g, _ := grant(action)
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return g, c
}

// alive counts the engine's leases.
func (b bed) alive(t *testing.T, role string) int {
	t.Helper()
	s, err := b.Root.Logical().ListWithContext(t.Context(), "sys/leases/lookup/"+b.mount+"/creds/"+role)
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		return 0
	}
	keys, _ := s.Data["keys"].([]any)
	return len(keys)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	providertest.Run(t, providertest.Subject{
		Driver: driver(t, b.cfg), Grant: func() provider.Grant { g, _ := grant("read"); return g }, Unsupported: "db:orders:drop",
		Alive: func(ctx context.Context, c provider.Credential) (bool, error) {
			conn, err := b.login(ctx, c)
			if err != nil {
				return false, nil
			}
			return true, conn.Close(ctx)
		},
	})
	eventually(t, "leases are left", func() bool { return b.alive(t, "ro") <= 17 }) // those that the suite does not revoke
}

// TestRevokeEndsOpenSessions: I2 at the provider: open sessions end with the lease.
func TestRevokeEndsOpenSessions(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := driver(t, b.cfg)
	g, c := b.mint(t, d, "read")
	g2, c2 := b.mint(t, d, "read")
	mine, err := b.login(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	neighbour, err := b.login(t.Context(), c2)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the session goes on")
	}
	if _, err := neighbour.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("the neighbour's session ended: %v", err)
	}
	for want, x := range map[bool]provider.Target{false: targetOf(g, c.Handle), true: targetOf(g2, c2.Handle)} {
		if alive, err := d.Probe(t.Context(), x); err != nil || alive != want {
			t.Errorf("Probe = %v, %v; want %v", alive, err, want)
		}
	}
}

// TestRevokeWhileTheBackendIsDown: the database is unavailable at a revocation. Vault answers
// 400 and does not retry, so the revocation fails.
func TestRevokeWhileTheBackendIsDown(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := driver(t, b.cfg)
	g, c := b.mint(t, d, "read")
	b.db.Cut(true)
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err == nil {
		t.Fatal("Revoke succeeds while the database is down")
	}
	if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); err != nil || !alive {
		t.Errorf("Probe = %v, %v: the role is there", alive, err)
	}
	b.db.Cut(false)
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if conn, err := b.login(t.Context(), c); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the role logs in")
	}
}

// TestRevokeOfADeletedRole: the engine's role is deleted between mint and revocation. The
// minted credential is revoked nevertheless.
func TestRevokeOfADeletedRole(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := driver(t, b.cfg)
	g, c := b.mint(t, d, "read")
	if _, err := b.Root.Logical().DeleteWithContext(t.Context(), b.mount+"/roles/ro"); err != nil {
		t.Fatal(err)
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Fatal(err)
	}
	if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); err != nil || alive {
		t.Errorf("Probe = %v, %v", alive, err)
	}
	if conn, err := b.login(t.Context(), c); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the role logs in")
	}
}

// TestCutAnswerLeavesNoOrphan: the engine has made a role, but its response is truncated. The
// saved handle is sufficient to revoke the role.
func TestCutAnswerLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	up, err := url.Parse(b.Address)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(up)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/creds/") {
			pass.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		pass.ServeHTTP(rec, r)
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(rec.Body.Bytes()[:20])
	}))
	defer s.Close()
	b.cfg.Address = s.URL
	d := driver(t, b.cfg)
	g, was := grant("read")
	if _, err := d.Mint(t.Context(), g); err == nil || was.handle.Empty() {
		t.Fatalf("Mint = %v, saved %v", err, !was.handle.Empty())
	}
	if n := b.alive(t, "ro"); n != 1 {
		t.Fatalf("the engine has %d leases: the test shows nothing", n)
	}
	if err := d.Revoke(t.Context(), targetOf(g, was.handle)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphan lives on", func() bool { return b.alive(t, "ro") == 0 })
	if alive, err := d.Probe(t.Context(), targetOf(g, was.handle)); err != nil || alive {
		t.Errorf("Probe = %v, %v", alive, err)
	}
}

// TestWhatIsNotSavedIsNotMinted: if the handle cannot be saved, the driver revokes the token
// and does not call the engine.
func TestWhatIsNotSavedIsNotMinted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := driver(t, b.cfg)
	g, s := grant("read")
	s.err = context.DeadlineExceeded
	if _, err := d.Mint(t.Context(), g); err == nil {
		t.Fatal("Mint goes on though nothing was saved")
	}
	if n := b.alive(t, "ro"); n != 0 {
		t.Errorf("the engine has %d leases", n)
	}
	if alive, err := d.Probe(t.Context(), targetOf(g, s.handle)); err != nil || alive {
		t.Errorf("the token lives: %v, %v", alive, err)
	}
}

func TestTheEnginesShorterLifeCounts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g, c := b.mint(t, driver(t, b.cfg), "short")
	if life := c.ExpiresAt.Sub(g.IssuedAt); life > 20*time.Second || c.DiesAt.Before(c.ExpiresAt) {
		t.Errorf("it lives %s and dies %s later", life, c.DiesAt.Sub(c.ExpiresAt))
	}
}

// TestBrokersTokenDies: an operator of Vault revokes the broker's own token. The broker logs
// in again, and its minted credentials remain valid.
func TestBrokersTokenDies(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := driver(t, b.cfg)
	g, c := b.mint(t, d, "read")
	s, err := b.Root.Logical().ListWithContext(t.Context(), "auth/token/accessors")
	if err != nil {
		t.Fatal(err)
	}
	var killed atomic.Int32
	for _, k := range s.Data["keys"].([]any) { //nolint:forcetypeassert // a test
		look, err := b.Root.Auth().Token().LookupAccessorWithContext(t.Context(), k.(string)) //nolint:forcetypeassert // a test
		if err == nil && look.Data["path"] == "auth/"+b.cfg.Auth.Mount+"/login" {
			if err := b.Root.Auth().Token().RevokeAccessorWithContext(t.Context(), k.(string)); err != nil { //nolint:forcetypeassert // a test
				t.Fatal(err)
			}
			killed.Add(1)
		}
	}
	if killed.Load() == 0 {
		t.Fatal("no token of the broker was found")
	}
	conn, err := b.login(t.Context(), c)
	if err != nil {
		t.Errorf("what was minted died with the broker's token: %v", err)
	} else {
		_ = conn.Close(t.Context())
	}
	b.mint(t, d, "read")
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil {
		t.Error(err)
	}
}
