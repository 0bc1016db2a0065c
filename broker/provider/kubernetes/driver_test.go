package kubernetes_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/kubetest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/kubernetes"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

const instance = "0a1b2c3d"

func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func configFor(t *testing.T, a *apiServer) kubernetes.Config {
	t.Helper()
	return kubernetes.Config{
		Server: a.url, CAFile: a.ca, TokenFile: kubetest.File(t, a.login+"\n"), Timeout: 20 * time.Second,
		Grants: map[string]map[string]kubernetes.Account{"shop": {
			"deploy": {Namespace: "agents", ServiceAccount: "shop-deployer"},
			"read":   {Namespace: "agents", ServiceAccount: "shop-reader", Audiences: []string{"https://shop.example", "b"}},
			"look":   {Namespace: "other", ServiceAccount: "reader"},
		}},
	}
}

func driver(t *testing.T, c kubernetes.Config) *kubernetes.Driver {
	t.Helper()
	d, err := kubernetes.New("kube", c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func grant(action string, life time.Duration) provider.Grant {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	now := time.Now()
	return provider.Grant{
		LeaseID: "lse_" + hex.EncodeToString(id), Instance: instance, TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "ann",
		Scopes: scopes.MustParseSet("kube:shop:" + action), IssuedAt: now, ExpiresAt: now.Add(life),
		Save: func(context.Context, secret.Secret) error { return nil },
	}
}

func targetOf(g provider.Grant, h secret.Secret) provider.Target {
	return provider.Target{LeaseID: g.LeaseID, Instance: g.Instance, Scopes: g.Scopes, Handle: h, IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, Now: g.IssuedAt}
}

// revoked is a target whose revocation was accepted a minute ago.
func revoked(x provider.Target) provider.Target {
	x.AcceptedAt = x.Now.Add(-time.Minute)
	return x
}

func mint(t *testing.T, d *kubernetes.Driver, g provider.Grant) provider.Credential {
	t.Helper()
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	providertest.Run(t, providertest.Subject{
		Driver: driver(t, configFor(t, a)), Grant: func() provider.Grant { return grant("read", time.Minute) }, Unsupported: "kube:shop:drop",
		Alive: func(_ context.Context, c provider.Credential) (bool, error) { return a.alive(c.Token.Reveal()), nil },
	})
}

// TestLifetimes: a token has a lifetime of at least ten minutes. A shorter lease ends at its
// requested time, and ebb revokes the token then.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	for _, tt := range []struct{ ask, most, lease, dies time.Duration }{
		{ask: time.Second, lease: time.Second, dies: 10 * time.Minute},
		{ask: time.Hour, lease: time.Hour, dies: time.Hour},
		{ask: 4 * time.Hour, most: time.Hour, lease: time.Hour, dies: time.Hour},
	} {
		a.set(func() { a.maxLife = tt.most })
		g := grant("deploy", tt.ask)
		c := mint(t, d, g)
		near := func(what string, got time.Time, want time.Duration) {
			if off := got.Sub(g.IssuedAt) - want; off < -5*time.Second || off > 5*time.Second {
				t.Errorf("asked for %s with a maximum of %s: %s is %s, want about %s", tt.ask, tt.most, what, got.Sub(g.IssuedAt), want)
			}
		}
		near("the lease", c.ExpiresAt, tt.lease)
		near("the token", c.DiesAt, tt.dies+75*time.Second) // a minute of leeway, and what the server remembers
		if c.ExpiresAt.After(g.ExpiresAt) || c.Type != "Bearer" {
			t.Errorf("credential %s until %s", c.Type, c.ExpiresAt)
		}
	}
}

func TestScopesAreExact(t *testing.T) {
	t.Parallel()
	d := driver(t, configFor(t, newServer(t)))
	for _, bad := range []string{"kube:shop:*", "kube:*:read", "kube:shop/x:read", "kube:other:read", "kube:shop:read kube:shop:deploy", "kube:**:*"} {
		if err := d.Check(scopes.MustParseSet(bad)); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Check(%s) = %v", bad, err)
		}
	}
}

// TestIntentWhoseGrantHasMoved: the server's response is lost, and the configuration has
// changed when the intent is settled. The saved handle contains the namespace of the Secret.
func TestIntentWhoseGrantHasMoved(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	moved := configFor(t, a)
	moved.Grants["shop"]["deploy"] = kubernetes.Account{Namespace: "other", ServiceAccount: "reader"}
	gone := configFor(t, a)
	delete(gone.Grants["shop"], "deploy")
	for name, today := range map[string]kubernetes.Config{"moved": moved, "gone": gone} {
		a.set(func() {
			a.after = func(http.ResponseWriter, *http.Request, int, any) bool { panic(http.ErrAbortHandler) }
		})
		g := grant("deploy", time.Hour)
		var saved secret.Secret
		g.Save = func(_ context.Context, h secret.Secret) error {
			if saved = h; a.left() != 0 {
				t.Errorf("%s: the Secret was made before its place was saved", name)
			}
			return nil
		}
		if _, err := driver(t, configFor(t, a)).Mint(t.Context(), g); err == nil || errors.Is(err, provider.ErrRefused) || a.left() != 1 {
			t.Fatalf("%s: Mint = %v, %d Secrets", name, err, a.left())
		}
		a.set(func() { a.after = nil })
		d := driver(t, today)
		if alive, err := d.Probe(t.Context(), targetOf(g, saved)); err != nil || !alive {
			t.Errorf("%s: Probe = %v, %v", name, alive, err)
		}
		if err := d.Revoke(t.Context(), targetOf(g, saved)); err != nil || a.left() != 0 {
			t.Errorf("%s: Revoke = %v, %d Secrets are left", name, err, a.left())
		}
		a.set(func() { clear(a.secrets) })
	}
}

func TestWhatIsNotSavedIsNotMade(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	g := grant("deploy", time.Hour)
	g.Save = func(context.Context, secret.Secret) error { return errors.New("the database is down") }
	if _, err := driver(t, configFor(t, a)).Mint(t.Context(), g); err == nil || errors.Is(err, provider.ErrRefused) {
		t.Errorf("Mint = %v", err)
	}
	g.Save = nil
	if _, err := driver(t, configFor(t, a)).Mint(t.Context(), g); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("Mint without Save = %v", err)
	}
	if len(a.calls) != 0 {
		t.Errorf("the server was asked: %q", a.calls)
	}
}

// TestRevokeByNameAlone: without a handle, the name and the scope are sufficient.
func TestRevokeByNameAlone(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	g, neighbour := grant("deploy", time.Hour), grant("deploy", time.Hour)
	c, n := mint(t, d, g), mint(t, d, neighbour)
	for want, x := range map[bool]provider.Target{true: targetOf(g, secret.Secret{}), false: revoked(targetOf(grant("read", time.Hour), secret.Secret{}))} {
		if alive, err := d.Probe(t.Context(), x); err != nil || alive != want {
			t.Errorf("Probe = %v, %v; want %v", alive, err, want)
		}
	}
	if err := d.Revoke(t.Context(), targetOf(g, secret.Secret{})); err != nil {
		t.Fatal(err)
	}
	if a.alive(c.Token.Reveal()) || !a.alive(n.Token.Reveal()) {
		t.Error("not exactly this token is dead")
	}
	if alive, err := d.Probe(t.Context(), revoked(targetOf(g, c.Handle))); err != nil || alive {
		t.Errorf("Probe = %v, %v", alive, err)
	}
	moved := configFor(t, a) // the grant is not in the configuration any more
	moved.Grants = map[string]map[string]kubernetes.Account{"x": {"y": {Namespace: "n", ServiceAccount: "s"}}}
	if err := driver(t, moved).Revoke(t.Context(), targetOf(neighbour, secret.Secret{})); err == nil {
		t.Error("a Secret whose namespace is not known is taken for gone")
	}
	if err := driver(t, moved).Revoke(t.Context(), targetOf(neighbour, n.Handle)); err != nil || a.left() != 0 {
		t.Errorf("with its handle: %v, %d Secrets are left", err, a.left())
	}
}

// TestProbeWaitsForTheBound: the API server caches for seconds that a token is valid. Until
// then a missing Secret proves nothing.
func TestProbeWaitsForTheBound(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	g := grant("deploy", time.Hour)
	c := mint(t, d, g)
	x := targetOf(g, c.Handle)
	if err := d.Revoke(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	early := func(when string) {
		t.Helper()
		if alive, err := d.Probe(t.Context(), x); !alive || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: Probe = %v, %v", when, alive, err)
		}
	}
	early("nobody knows since when")
	x.AcceptedAt = x.Now
	for _, after := range []time.Duration{0, 10 * time.Second, 15*time.Second - 1} {
		x.Now = x.AcceptedAt.Add(after)
		early(after.String())
	}
	x.Now = x.AcceptedAt.Add(15 * time.Second)
	if alive, err := d.Probe(t.Context(), x); err != nil || alive {
		t.Errorf("Probe after the bound = %v, %v", alive, err)
	}
}

// TestAnotherSecretOfTheName: another client has made a new Secret with the name of a lease's
// Secret. ebb does not delete it, because the token became invalid with the first Secret.
func TestAnotherSecretOfTheName(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	g := grant("deploy", time.Hour)
	c := mint(t, d, g)
	a.set(func() {
		for at, s := range a.secrets {
			other := *s
			other.UID = "another"
			a.secrets[at] = &other
		}
	})
	if alive, err := d.Probe(t.Context(), revoked(targetOf(g, c.Handle))); err != nil || alive {
		t.Errorf("Probe = %v, %v", alive, err)
	}
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil || a.left() != 1 {
		t.Errorf("Revoke = %v, %d Secrets are left", err, a.left())
	}
}

func TestFinalizerIsNoSuccess(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	g := grant("deploy", time.Hour)
	c := mint(t, d, g)
	a.set(func() { a.finalize = true })
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err == nil || !strings.Contains(err.Error(), "finalizer") {
		t.Errorf("Revoke = %v while the Secret stays", err)
	}
	if alive, err := d.Probe(t.Context(), targetOf(g, c.Handle)); err != nil || !alive {
		t.Errorf("Probe = %v, %v", alive, err)
	}
}

func TestRaces(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	g := grant("deploy", time.Hour)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won []provider.Credential
	for range 8 { // one lease, minted by eight
		wg.Go(func() {
			c, err := d.Mint(t.Context(), g)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, c)
			} else if errors.Is(err, provider.ErrRefused) {
				t.Errorf("Mint = %v: something was made by another", err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || a.left() != 1 || !a.alive(won[0].Token.Reveal()) {
		t.Fatalf("%d credentials, %d Secrets", len(won), a.left())
	}
	for range 8 { // and revoked by eight
		wg.Go(func() {
			if err := d.Revoke(t.Context(), targetOf(g, won[0].Handle)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if a.deleted != 1 || a.left() != 0 {
		t.Errorf("%d deletions, %d Secrets", a.deleted, a.left())
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	var want []string
	for _, action := range []string{"deploy", "deploy", "read", "look", "look"} {
		g := grant(action, time.Hour)
		mint(t, d, g)
		want = append(want, g.LeaseID)
	}
	ours := map[string]string{"app.kubernetes.io/managed-by": "ebb", "ebb/instance": instance}
	a.set(func() {
		a.page = 2
		a.secrets["agents/ebb-ffffffff-"+strings.Repeat("0", 32)] = &boundSecret{Name: "ebb-ffffffff-" + strings.Repeat("0", 32), Namespace: "agents", UID: "x", Labels: ours}
		a.secrets["agents/ebb"] = &boundSecret{Name: "ebb", Namespace: "agents", UID: "x", Labels: ours}
	})
	var got []string
	collect := func(x provider.Target) error {
		got = append(got, x.LeaseID)
		return d.Revoke(t.Context(), x) // a listed target is enough
	}
	if err := d.List(t.Context(), instance, collect); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || a.left() != 2 {
		t.Errorf("listed %v, want %v; %d are left", got, want, a.left())
	}
	mint(t, d, grant("deploy", time.Hour))
	mint(t, d, grant("look", time.Hour))
	stop := errors.New("stop")
	n := 0
	if err := d.List(t.Context(), instance, func(provider.Target) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("List = %v after %d", err, n)
	}
}
