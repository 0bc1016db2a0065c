package gcp_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/gcp"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/scopes"
)

func configFor(t *testing.T, g *google) gcp.Config {
	t.Helper()
	return gcp.Config{
		KeyFile: keyFile(t, "key-1"), Timeout: 20 * time.Second,
		Endpoints: gcp.Endpoints{OAuth: g.url, IAMCredentials: g.url, STS: g.url, IAM: g.url, Metadata: g.url},
		Buckets: map[string]gcp.Bucket{
			"lake": {ServiceAccount: reader, Actions: map[string]gcp.Action{
				"read": {Role: "roles/storage.legacyObjectReader"}, "browse": {Role: "roles/storage.objectViewer", List: true}, "write": {Role: "roles/storage.objectCreator"},
			}},
			"pond":  {ServiceAccount: reader, Actions: map[string]gcp.Action{"read": {Role: "roles/storage.objectViewer"}}},
			"ocean": {ServiceAccount: other, Actions: map[string]gcp.Action{"read": {Role: "projects/acme/roles/reader"}}},
		},
		Grants: map[string]map[string]gcp.Account{"dwh/eu": {"query": {ServiceAccount: query, Scopes: []string{"https://www.googleapis.com/auth/bigquery.readonly"}}}},
	}
}

func driver(t *testing.T, c gcp.Config, now func() time.Time) *gcp.Driver {
	t.Helper()
	d, err := gcp.New("gcp", c, now)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func grant(set string, life time.Duration) provider.Grant {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	now := time.Now()
	return provider.Grant{
		LeaseID: "lse_" + hex.EncodeToString(id), Instance: "0a1b2c3d", TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "ann",
		Scopes: scopes.MustParseSet(set), IssuedAt: now, ExpiresAt: now.Add(life),
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"gcp:lake/in/**:read", "gcp:dwh/eu:query"} {
		g := newGoogle(t)
		providertest.Run(t, providertest.Subject{
			Driver: driver(t, configFor(t, g), nil), Grant: func() provider.Grant { return grant(set, 5*time.Minute) }, Unsupported: "gcp:lake/in/**:drop",
			Alive: func(_ context.Context, c provider.Credential) (bool, error) {
				g.mu.Lock()
				defer g.mu.Unlock()
				m, known := g.tokens[c.Token.Reveal()]
				return known && (m.rules != nil) == strings.Contains(set, "lake") && time.Now().Before(m.until), nil
			},
		})
	}
}

// TestBoundaries: the boundary allows exactly what the scopes allow.
func TestBoundaries(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	d := driver(t, configFor(t, g), nil)
	rule := func(bucket, role, expression string) string {
		condition := ""
		if expression != "" {
			condition = fmt.Sprintf(`"availabilityCondition":{"expression":%q},`, expression)
		}
		return fmt.Sprintf(`{%s"availablePermissions":["inRole:roles/storage.%s"],"availableResource":"//storage.googleapis.com/projects/_/buckets/%s"}`,
			condition, strings.ReplaceAll(role, "+", `","inRole:roles/storage.`), bucket)
	}
	for set, want := range map[string][]string{
		"gcp:lake/in/2026/**:read":                 {rule("lake", "legacyObjectReader", "resource.name.startsWith('projects/_/buckets/lake/objects/in/2026/')")},
		"gcp:lake/in/a.csv:read":                   {rule("lake", "legacyObjectReader", "resource.name == 'projects/_/buckets/lake/objects/in/a.csv'")},
		"gcp:lake/**:read":                         {rule("lake", "legacyObjectReader", "resource.name.startsWith('projects/_/buckets/lake/objects/')")},
		"gcp:lake/**:browse":                       {rule("lake", "objectViewer", "")},
		"gcp:lake/in/**:browse":                    {rule("lake", "objectViewer", "resource.name.startsWith('projects/_/buckets/lake/objects/in/') || api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('in/')")},
		"gcp:lake/in/a.csv:browse":                 {rule("lake", "objectViewer", "resource.name == 'projects/_/buckets/lake/objects/in/a.csv'")},
		"gcp:lake/~a@b+c=d,e-_:read":               {rule("lake", "legacyObjectReader", "resource.name == 'projects/_/buckets/lake/objects/~a@b+c=d,e-_'")},
		"gcp:lake/in/**:read gcp:lake/in/**:write": {rule("lake", "legacyObjectReader+objectCreator", "resource.name.startsWith('projects/_/buckets/lake/objects/in/')")},
		"gcp:lake/in/**:read gcp:lake/out/**:write gcp:pond/x:read": {
			rule("lake", "legacyObjectReader", "resource.name.startsWith('projects/_/buckets/lake/objects/in/')"),
			rule("lake", "objectCreator", "resource.name.startsWith('projects/_/buckets/lake/objects/out/')"),
			rule("pond", "objectViewer", "resource.name == 'projects/_/buckets/pond/objects/x'"),
		},
	} {
		c, err := d.Mint(t.Context(), grant(set, time.Minute))
		if err != nil {
			t.Errorf("%s: %v", set, err)
			continue
		}
		m := g.tokens[c.Token.Reveal()]
		if m.account != reader || len(m.rules) != len(want) {
			t.Errorf("%s: %s with %d rules", set, m.account, len(m.rules))
			continue
		}
		for i, r := range m.rules {
			var w any
			if err := json.Unmarshal([]byte(want[i]), &w); err != nil {
				t.Fatal(err)
			}
			got, _ := json.Marshal(r)
			if text, _ := json.Marshal(w); string(got) != string(text) {
				t.Errorf("%s:\n got %s\nwant %s", set, got, text)
			}
		}
	}
}

func TestWhatCannotBeExpressedIsRefused(t *testing.T) {
	t.Parallel()
	d := driver(t, configFor(t, newGoogle(t)), nil)
	many := func(n int, of string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(of, i))
		}
		return strings.Join(all, " ")
	}
	for _, bad := range []string{
		"gcp:lake:read", "gcp:lake/*:read", "gcp:lake/a/*/b:read", "gcp:lake/*/**:read", "gcp:*/a:read", "gcp:**:read", "gcp:lake/**:*", "gcp:lake/a:drop",
		"gcp:unknown/a:read", "gcp:lake/a:read gcp:ocean/a:read", "gcp:dwh/eu:query gcp:lake/a:read", "gcp:dwh/*:query", "gcp:dwh/eu:*", "gcp:dwh/eu/x:query",
		many(11, "gcp:lake/p%d/**:read"), many(10, "gcp:lake/"+strings.Repeat("long/", 12)+"p%d/**:browse"),
	} {
		if err := d.Check(scopes.MustParseSet(bad)); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Check(%.80s) = %v", bad, err)
		}
	}
	if err := d.Check(scopes.MustParseSet(many(8, "gcp:lake/p%d/**:read"))); err != nil {
		t.Errorf("eight rules: %v", err)
	}
}

// TestLifetimes: no token outlives its lease, and the driver does not issue one that would.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set       string
		ask       time.Duration
		shape     func(string, map[string]any)
		ok        bool
		life, die time.Duration
	}{
		"five minutes":       {set: "gcp:lake/a:read", ask: 5 * time.Minute, ok: true, life: 298 * time.Second, die: 298 * time.Second},
		"seconds":            {set: "gcp:dwh/eu:query", ask: 15 * time.Second, ok: true, life: 15 * time.Second, die: 15 * time.Second},
		"Google's limit":     {set: "gcp:dwh/eu:query", ask: 3 * time.Hour, ok: true, life: 3598 * time.Second, die: 3598 * time.Second},
		"less than a second": {set: "gcp:dwh/eu:query", ask: 500 * time.Millisecond},
		"expires_in is missing": {set: "gcp:lake/a:read", ask: 5 * time.Minute, ok: true, life: 298 * time.Second, die: 298 * time.Second, shape: func(p string, a map[string]any) {
			if p == "/v1/token" {
				delete(a, "expires_in")
			}
		}},
		"expires_in is shorter": {set: "gcp:lake/a:read", ask: 5 * time.Minute, ok: true, life: time.Minute, die: time.Minute, shape: func(p string, a map[string]any) {
			if p == "/v1/token" {
				a["expires_in"] = 60
			}
		}},
		"expires_in is longer than the token's own": {set: "gcp:lake/a:read", ask: 5 * time.Minute, ok: true, life: 298 * time.Second, die: 298 * time.Second, shape: func(p string, a map[string]any) {
			if p == "/v1/token" {
				a["expires_in"] = 3600
			}
		}},
		"expires_in is 0": {set: "gcp:lake/a:read", ask: 5 * time.Minute, shape: func(p string, a map[string]any) {
			if p == "/v1/token" {
				a["expires_in"] = 0
			}
		}},
		"longer than asked": {set: "gcp:dwh/eu:query", ask: 5 * time.Minute, shape: func(_ string, a map[string]any) {
			if a["expireTime"] != nil {
				a["expireTime"] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
			}
		}},
		"over already": {set: "gcp:dwh/eu:query", ask: 5 * time.Minute, shape: func(_ string, a map[string]any) {
			if a["expireTime"] != nil {
				a["expireTime"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
			}
		}},
		"no end": {set: "gcp:dwh/eu:query", ask: 5 * time.Minute, shape: func(_ string, a map[string]any) { delete(a, "expireTime") }},
	} {
		g := newGoogle(t)
		g.set(func() { g.shape = tt.shape })
		x := grant(tt.set, tt.ask)
		c, err := driver(t, configFor(t, g), nil).Mint(t.Context(), x)
		if (err == nil) != tt.ok || err != nil && !c.Token.Empty() {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			continue
		}
		for what, at := range map[string]struct {
			got  time.Time
			want time.Duration
		}{"lease": {c.ExpiresAt, tt.life}, "token": {c.DiesAt, tt.die}} {
			if off := at.got.Sub(x.IssuedAt) - at.want; off < -5*time.Second || off > 5*time.Second {
				t.Errorf("%s: the %s ends after %s, want %s", name, what, at.got.Sub(x.IssuedAt), at.want)
			}
		}
		if c.ExpiresAt.After(x.ExpiresAt) || tt.ask > 20*time.Second && c.DiesAt.After(x.ExpiresAt) {
			t.Errorf("%s: it outlives its lease", name)
		}
	}
}

// TestLogin: sixteen concurrent mints need one login. The driver uses it until shortly before
// its expiry, or until Google refuses it.
func TestLogin(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	var mu sync.Mutex
	now := time.Now()
	c := configFor(t, g)
	d := driver(t, c, func() time.Time { mu.Lock(); defer mu.Unlock(); return now })
	mint := func() error {
		x := grant("gcp:dwh/eu:query", 5*time.Minute)
		x.IssuedAt, x.ExpiresAt = now, now.Add(5*time.Minute)
		_, err := d.Mint(t.Context(), x)
		return err
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := mint(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := g.count("/token"); n != 1 {
		t.Errorf("%d logins", n)
	}
	g.set(func() { clear(g.logins) }) // it is refused from now on
	if err := mint(); err != nil || g.count("/token") != 2 {
		t.Errorf("Mint = %v after %d logins", err, g.count("/token"))
	}
	g.set(func() { g.key = "key-2" }) // the key was replaced at Google; what is logged in stays so
	if err := mint(); err != nil {
		t.Error(err)
	}
	g.set(func() { clear(g.logins) })
	if err := mint(); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("with a key that is no more: %v", err)
	}
	writeKey(t, c.KeyFile, "key-2")
	if err := mint(); err != nil {
		t.Errorf("with the new key: %v", err)
	}
	before := g.count("/token")
	mu.Lock()
	now = now.Add(56 * time.Minute)
	mu.Unlock()
	g.set(func() { g.shape = func(_ string, a map[string]any) { delete(a, "nothing") } })
	_ = mint() // Google's clock is the real one: only the login counts here
	if n := g.count("/token"); n != before+1 {
		t.Errorf("%d logins near the end of one", n-before)
	}
}

// TestLoginThatHangs: a caller that waits for the login of another caller waits only until its
// own context ends.
func TestLoginThatHangs(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	c := configFor(t, g)
	d := driver(t, c, nil)
	asked, stop := make(chan struct{}, 1), make(chan struct{})
	g.set(func() { g.fault = hangAt("/token", asked, stop) })
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, err := d.Mint(ctx, grant("gcp:dwh/eu:query", time.Minute)); done <- err }()
	<-asked
	waiting, leave := context.WithCancel(t.Context())
	leave()
	if _, err := d.Mint(waiting, grant("gcp:dwh/eu:query", time.Minute)); !errors.Is(err, context.Canceled) {
		t.Errorf("Mint = %v", err)
	}
	close(stop)
	if err := <-done; err == nil {
		t.Error("minted with half a login")
	}
}

func TestMetadataServer(t *testing.T) {
	g := newGoogle(t)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // the metadata server is never behind it
	c := configFor(t, g)
	c.KeyFile, c.Metadata = "", true
	d := driver(t, c, nil)
	if _, err := d.Mint(t.Context(), grant("gcp:lake/a:read", time.Minute)); err != nil || g.count("/default/token") != 1 {
		t.Errorf("Mint = %v", err)
	}
	d = driver(t, c, nil) // something else answers in its place: no Metadata-Flavor
	g.set(func() {
		g.fault = answerAt("/default/token", 200, `{"access_token":"x","expires_in":9,"token_type":"Bearer"}`)
	})
	if _, err := d.Mint(t.Context(), grant("gcp:lake/a:read", time.Minute)); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Errorf("Mint = %v", err)
	}
}

// TestDescribeGoesByRoles: the effect of a bucket's action follows from its role, not from the
// operator's name of the action.
func TestDescribeGoesByRoles(t *testing.T) {
	d := driver(t, configFor(t, newGoogle(t)), time.Now)
	for text, want := range map[string][2]provider.Answer{
		"gcp:lake/**:read":   {provider.No, provider.Yes},
		"gcp:lake/**:browse": {provider.No, provider.Yes},
		"gcp:lake/a:write":   {provider.Yes, provider.Yes},
		"gcp:ocean/a:read":   {provider.Yes, provider.Unknown},
		"gcp:dwh/eu:query":   {provider.Unknown, provider.Unknown},
	} {
		e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0])
		if err != nil || e.Writes != want[0] || e.Reversible != want[1] {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"gcp:lake/a:drop", "gcp:river/a:read", "gcp:lake/a:*"} {
		if e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0]); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
}
