package oauth_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/oauth"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// memory is the secret store in this process; package secretstore itself is tested on
// real databases.
type memory struct {
	mu sync.Mutex
	v  map[string]secret.Secret
}

func (m *memory) Get(_ context.Context, name string) (secret.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.v[name].Empty() {
		return secret.Secret{}, os.ErrNotExist
	}
	return m.v[name], nil
}

func (m *memory) Exchange(ctx context.Context, name string, _ time.Duration, f func(context.Context, secret.Secret) (secret.Secret, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, err := f(ctx, m.v[name])
	if !next.Empty() {
		m.v[name] = next
	}
	return err
}

// op is npm's oidc-provider, an authorization server that is not ours.
type op struct {
	Issuer, ID, Secret string
	next               func() string // a new refresh token
}

func startOP(t *testing.T) op {
	t.Helper()
	program := counterpart.Talk(t, "EBB_TEST_NODE_OP", "testdata/op/op.mjs")
	var o op
	program.Hear(&o)
	o.next = func() string {
		t.Helper()
		var r struct {
			RefreshToken string `json:"refresh_token"`
		}
		program.Ask(&r)
		return r.RefreshToken
	}
	return o
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (o op) config(t *testing.T) oauth.Config {
	t.Helper()
	return oauth.Config{
		TokenEndpoint: o.Issuer + "/token", RevocationEndpoint: o.Issuer + "/token/revocation", IntrospectionEndpoint: o.Issuer + "/token/introspection",
		Client: oauth.Client{ID: o.ID, Auth: "client_secret_basic", SecretFile: file(t, o.Secret)},
		Grants: map[string]oauth.Grant{"drive": {RefreshToken: "drive-ann", Actions: map[string]string{"read": "files.read", "write": "files.read files.write"}}},
	}
}

func driver(t *testing.T, c oauth.Config, s provider.SecretStore) provider.Driver {
	t.Helper()
	d, err := oauth.New("files", c, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func grant(set string) provider.Grant {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	now := time.Now()
	return provider.Grant{
		LeaseID: "lse_" + hex.EncodeToString(id), Instance: "0a1b2c3d", TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "ann",
		Scopes: scopes.MustParseSet(set), IssuedAt: now, ExpiresAt: now.Add(5 * time.Minute),
	}
}

func targetOf(g provider.Grant, c provider.Credential) provider.Target {
	return provider.Target{LeaseID: g.LeaseID, Instance: g.Instance, Scopes: g.Scopes, Handle: c.Handle, IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, DiesAt: c.DiesAt, Now: g.IssuedAt}
}

// scope asks the server itself what a token may do; "" = it is dead.
func (o op) scope(ctx context.Context, token string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Issuer+"/token/introspection", strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(o.ID, o.Secret)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer a.Body.Close() //nolint:errcheck // only read
	var doc struct {
		Active bool
		Scope  string
	}
	err = json.NewDecoder(a.Body).Decode(&doc)
	if !doc.Active {
		doc.Scope = ""
	}
	return doc.Scope, err
}

// TestConformance: tokens of client_credentials are revoked one by one.
func TestConformance(t *testing.T) {
	t.Parallel()
	o := startOP(t)
	c := o.config(t)
	c.Grants = map[string]oauth.Grant{"drive": {Actions: map[string]string{"read": "files.read"}}}
	d := driver(t, c, nil)
	providertest.Run(t, providertest.Subject{
		Driver: d, Grant: func() provider.Grant { return grant("files:drive:read") }, Unsupported: "files:drive:share",
		Alive: func(ctx context.Context, c provider.Credential) (bool, error) {
			s, err := o.scope(ctx, c.Token.Reveal())
			return s != "", err
		},
	})
	g, mine := mint(t, d, "files:drive:read")
	_, neighbour := mint(t, d, "files:drive:read")
	if err := d.Revoke(t.Context(), targetOf(g, mine)); err != nil {
		t.Fatal(err)
	}
	p := d.(provider.Prober) //nolint:forcetypeassert // a test
	for want, c := range map[bool]provider.Credential{false: mine, true: neighbour} {
		if alive, err := p.Probe(t.Context(), targetOf(g, c)); err != nil || alive != want {
			t.Errorf("Probe = %v, %v; want %v", alive, err, want)
		}
	}
}

func mint(t *testing.T, d provider.Driver, set string) (provider.Grant, provider.Credential) {
	t.Helper()
	g := grant(set)
	c, err := d.Mint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return g, c
}

// TestRefreshTokens: a real server narrows scopes and rotates refresh tokens. Like Google's,
// this server revokes the whole authorization with one of its tokens, so its revocation
// endpoint is not configured.
func TestRefreshTokens(t *testing.T) {
	t.Parallel()
	o := startOP(t)
	first := o.next()
	s := &memory{v: map[string]secret.Secret{"drive-ann": secret.New(first)}}
	c := o.config(t)
	c.RevocationEndpoint = ""
	d := driver(t, c, s)
	g, reader := mint(t, d, "files:drive:read")
	if got, err := o.scope(t.Context(), reader.Token.Reveal()); err != nil || got != "files.read" {
		t.Errorf("the token may %q, %v", got, err)
	}
	if reader.Type != "Bearer" || reader.DiesAt.Sub(g.IssuedAt) < 9*time.Minute {
		t.Errorf("credential %+v", reader)
	}
	if s.v["drive-ann"].Reveal() == first {
		t.Error("the refresh token was not replaced by its successor")
	}
	// Many at once: one rotation after the other, or the server would end them all.
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := d.Mint(t.Context(), grant("files:drive:write")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := d.Revoke(t.Context(), targetOf(g, reader)); err != nil {
		t.Fatal(err)
	}
	if alive, err := d.(provider.Prober).Probe(t.Context(), targetOf(g, reader)); err != nil || !alive { //nolint:forcetypeassert // a test
		t.Errorf("Probe = %v, %v: nothing was revoked, as the class says", alive, err)
	}
	mint(t, d, "files:drive:read")
	// A thief uses an old refresh token. The server's reuse detection revokes all tokens, and the error tells the caller to ask the operator.
	thief := driver(t, c, &memory{v: map[string]secret.Secret{"drive-ann": secret.New(first)}})
	for _, d := range []provider.Driver{thief, d} {
		_, err := d.Mint(t.Context(), grant("files:drive:read"))
		refused(t, err, "renew it")
	}
}

func TestSetupIsJudged(t *testing.T) {
	t.Parallel()
	o := startOP(t)
	s := &memory{v: map[string]secret.Secret{"drive-ann": secret.New(o.next())}}
	look := func(c oauth.Config, s provider.SecretStore) []provider.Finding {
		t.Helper()
		return driver(t, c, s).(provider.Checker).CheckSetup(t.Context()) //nolint:forcetypeassert // a test
	}
	if f := look(o.config(t), s); len(f) != 0 {
		t.Errorf("a good set-up: %+v", f)
	}
	bad := o.config(t)
	bad.Client.SecretFile = file(t, "canary-wrong")
	if f := look(bad, s); len(f) != 1 || !f[0].Fatal || !strings.Contains(f[0].What, "invalid_client") {
		t.Errorf("a wrong secret: %+v", f)
	}
	if f := look(o.config(t), &memory{v: map[string]secret.Secret{}}); len(f) != 1 || !f[0].Fatal || !strings.Contains(f[0].Remedy, "ebb secrets put drive-ann") {
		t.Errorf("an empty secret store: %+v", f)
	}
	mute := o.config(t)
	mute.RevocationEndpoint = ""
	if f := look(mute, s); len(f) != 1 || f[0].Fatal {
		t.Errorf("without revocation: %+v", f)
	}
	mint(t, driver(t, o.config(t), s), "files:drive:read") // looking used nothing up
}
