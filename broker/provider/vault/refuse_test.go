package vault_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/vault"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/broker/vaultapi/vaulttest"
	"github.com/ebb-broker/ebb/scopes"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	mint := func(c vault.Config, action string) error {
		t.Helper()
		g, s := grant(action)
		d := driver(t, c)
		_, err := d.Mint(t.Context(), g)
		if err == nil || strings.Contains(err.Error(), "hvs.") {
			t.Errorf("%s: Mint = %v", action, err)
		}
		if !s.handle.Empty() { // every created credential has a pending revocation
			if err := d.Revoke(t.Context(), targetOf(g, s.handle)); err != nil {
				t.Error(err)
			}
		}
		return err
	}
	if err := mint(b.cfg, "none"); errors.Is(err, provider.ErrRefused) {
		t.Errorf("an engine's role that is gone = %v: a token was made", err)
	}
	wide := b.cfg
	wide.TokenRole = b.tokenRole(t, "other", "something-else")
	wide.Auth = b.AppRole(t, b.broker(t, wide.TokenRole))
	if err := mint(wide, "read"); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("a token role without the policy = %v", err)
	}
	batch := b.cfg
	batch.TokenRole = b.Name("batch")
	b.Write(t, "auth/token/roles/"+batch.TokenRole, map[string]any{
		"orphan": true, "token_type": "batch", "renewable": false, "allowed_policies": b.cfg.Grants["orders"]["read"].Policies,
	})
	batch.Auth = b.AppRole(t, b.broker(t, batch.TokenRole))
	if err := mint(batch, "read"); !errors.Is(err, provider.ErrRefused) { // the server makes none with an end of its own
		t.Errorf("tokens that cannot be revoked = %v", err)
	}
	if n := b.alive(t, "ro"); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	d := driver(t, b.cfg)
	for _, bad := range []string{"db:orders:*", "db:*:read", "db:orders/1:read", "db:other:read", "db:orders:read db:orders:short"} {
		if err := d.Check(scopes.MustParseSet(bad)); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Check(%s) = %v", bad, err)
		}
	}
}

func TestSetupIsJudged(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if f := driver(t, b.cfg).CheckSetup(t.Context()); len(f) != 0 {
		t.Errorf("a good set-up: %+v", f)
	}
	none := b.cfg
	none.TokenRole = "another"
	if f := driver(t, none).CheckSetup(t.Context()); len(f) != 1 || !f[0].Fatal || !strings.Contains(f[0].Remedy, "auth/token/create/another") {
		t.Errorf("without the token role: %+v", f)
	}
	root := b.cfg
	root.Auth = vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "root")}
	if f := driver(t, root).CheckSetup(t.Context()); len(f) == 0 || f[0].Fatal {
		t.Errorf("a broker that may do everything: %+v", f)
	}
	away := b.cfg
	away.Address = "http://127.0.0.1:1"
	if f := driver(t, away).CheckSetup(t.Context()); len(f) != 1 || !f[0].Fatal {
		t.Errorf("a server that is away: %+v", f)
	}
}

// TestAnswersThatAreNone: the server answers with an invalid response, not at all, or that it
// is busy.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	answers := map[string]http.HandlerFunc{
		"garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{{{")) },
		"empty":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"500":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"sealed":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"busy":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"nginx": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("<html><body>404 Not Found: invalid accessor, invalid lease</body></html>"))
		},
		"a page":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>Sign in</html>")) },
		"a nod":         func(http.ResponseWriter, *http.Request) {},
		"JSON":          func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"ok"}`)) },
		"null":          func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) },
		"accepted":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"404 of nobody": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"403 of a firewall": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("<html>blocked</html>"))
		},
		"400": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"404": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"errors":[]}`))
		},
		"hang": func(http.ResponseWriter, *http.Request) { <-stop },
		"away": func(w http.ResponseWriter, _ *http.Request) {
			http.Redirect(w, &http.Request{}, "http://127.0.0.1:1/", http.StatusFound)
		},
	}
	for name, answer := range answers {
		s := httptest.NewServer(answer)
		defer s.Close()
		timeout := 20 * time.Second
		if name == "hang" {
			timeout = 300 * time.Millisecond
		}
		c := vault.Config{
			Config: vaultapi.Config{
				Address: s.URL, Auth: vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "canary")}, Timeout: timeout,
			},
			TokenRole: "leases", Grants: map[string]map[string]vault.Path{"orders": {"read": {Path: "database/creds/ro", Policies: []string{"p"}}}},
		}
		d := driver(t, c)
		g, _ := grant("read")
		_, err := d.Mint(t.Context(), g)
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: Mint = %v", name, err)
		}
		if errors.Is(err, provider.ErrRefused) {
			t.Errorf("%s: Mint = %v claims that the server said no", name, err)
		}
		if _, busy := errors.AsType[*provider.BusyError](err); busy != (name == "busy") {
			t.Errorf("%s: Mint = %v", name, err)
		}
		for _, h := range []string{`{"accessor":"a","lease":"l"}`, `{"accessor":"a"}`} {
			if err := d.Revoke(t.Context(), targetOf(g, secret.New(h))); err == nil {
				t.Errorf("%s: Revoke of %s succeeds", name, h)
			}
			if alive, err := d.Probe(t.Context(), targetOf(g, secret.New(h))); err == nil && !alive {
				t.Errorf("%s: the probe of %s takes it for a proof of revocation", name, h)
			}
		}
	}
	close(stop)
}

// TestProbeOfWhatNobodyCanName: without a handle there is no accessor to look up. Probe makes
// no call and proves nothing.
func TestProbeOfWhatNobodyCanName(t *testing.T) {
	t.Parallel()
	d := driver(t, engine(t, "120", http.StatusNoContent))
	g, _ := grant("read")
	if alive, err := d.Probe(t.Context(), targetOf(g, secret.Secret{})); alive || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Probe = %v, %v", alive, err)
	}
}

func TestDamagedHandles(t *testing.T) {
	t.Parallel()
	c := vault.Config{
		Config:    vaultapi.Config{Address: "http://127.0.0.1:1", Auth: vaultapi.Auth{Method: "token", TokenFile: vaulttest.File(t, "x")}},
		TokenRole: "leases", Grants: map[string]map[string]vault.Path{"orders": {"read": {Path: "database/creds/ro", Policies: []string{"p"}}}},
	}
	d := driver(t, c)
	g, _ := grant("read")
	for _, h := range []string{"x", "{}", `{"lease":"l"}`, "[]"} {
		if err := d.Revoke(t.Context(), targetOf(g, secret.New(h))); err == nil {
			t.Errorf("Revoke with handle %q succeeds", h)
		}
		if _, err := d.Probe(t.Context(), targetOf(g, secret.New(h))); err == nil {
			t.Errorf("Probe with handle %q succeeds", h)
		}
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	good := func() vault.Config {
		return vault.Config{
			Config:    vaultapi.Config{Address: "https://vault.test", Auth: vaultapi.Auth{Method: "token", TokenFile: "/x"}},
			TokenRole: "leases", Grants: map[string]map[string]vault.Path{"orders": {"read": {Path: "database/creds/ro", Policies: []string{"p"}}}},
		}
	}
	if _, err := vault.New("db", good(), nil); err != nil {
		t.Fatal(err)
	}
	set := func(res, action string, p vault.Path) func(*vault.Config) {
		return func(c *vault.Config) { c.Grants[res] = map[string]vault.Path{action: p} }
	}
	ok := []string{"p"}
	for name, spoil := range map[string]func(*vault.Config){
		"http":         func(c *vault.Config) { c.Address = "http://vault.test" },
		"query":        func(c *vault.Config) { c.Address = "https://vault.test?x=1" },
		"no address":   func(c *vault.Config) { c.Address = "" },
		"no method":    func(c *vault.Config) { c.Auth.Method = "" },
		"no file":      func(c *vault.Config) { c.Auth.TokenFile = "" },
		"mount":        func(c *vault.Config) { c.Auth.Mount = "../sys" },
		"namespace":    func(c *vault.Config) { c.Namespace = "a//b" },
		"token role":   func(c *vault.Config) { c.TokenRole = "a/b" },
		"no grants":    func(c *vault.Config) { c.Grants = nil },
		"no action":    func(c *vault.Config) { c.Grants["orders"] = nil },
		"pattern":      set("*", "read", vault.Path{Path: "a/b", Policies: ok}),
		"dots":         set("x", "read", vault.Path{Path: "a/../sys/raw", Policies: ok}),
		"escape":       set("x", "read", vault.Path{Path: "a/%2e%2e/b", Policies: ok}),
		"no path":      set("x", "read", vault.Path{Policies: ok}),
		"no policy":    set("x", "read", vault.Path{Path: "a/b"}),
		"root":         set("x", "read", vault.Path{Path: "a/b", Policies: []string{"root"}}),
		"any action":   set("x", "*", vault.Path{Path: "a/b", Policies: ok}),
		"life":         set("x", "read", vault.Path{Path: "a/b", Policies: ok, MaxLifetime: -1}),
		"a long life":  set("x", "read", vault.Path{Path: "a/b", Policies: ok, MaxLifetime: 24*60*60 + 1}),
		"lone params":  set("x", "read", vault.Path{Path: "a/b", Policies: ok, Params: map[string]string{"a": "b"}}),
		"approle":      func(c *vault.Config) { c.Auth = vaultapi.Auth{Method: "approle"} },
		"jwt":          func(c *vault.Config) { c.Auth = vaultapi.Auth{Method: "jwt", Role: "x"} },
		"kubernetes":   func(c *vault.Config) { c.Auth = vaultapi.Auth{Method: "kubernetes"} },
		"ca_file":      func(c *vault.Config) { c.CAFile = "/nowhere" },
		"other method": func(c *vault.Config) { c.Auth.Method = "userpass" },
	} {
		c := good()
		spoil(&c)
		if _, err := vault.New("db", c, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
