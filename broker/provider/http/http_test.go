package http_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	web "github.com/ebb-broker/ebb/broker/provider/http"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/scopes"
)

func driver(t testing.TB) *web.Driver {
	t.Helper()
	d, err := web.New("web", web.Config{Allow: []string{"registry.example.com/**:read", "docs.example.com/v1/**:read", "hooks.example.com/in/*:write", "registry.example.com/cache/**:delete"}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func grant(scope string) provider.Grant {
	now := time.Now()
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return provider.Grant{LeaseID: "lse_" + hex.EncodeToString(id), Instance: "0a1b2c3d", TaskID: "tsk_1", Sandbox: "sbx_1", Subject: "ann",
		Scopes: scopes.MustParseSet(scope), IssuedAt: now, ExpiresAt: now.Add(time.Minute)}
}

func lease(scope string) provider.Target {
	g := grant(scope)
	return provider.Target{LeaseID: g.LeaseID, Scopes: g.Scopes, IssuedAt: g.IssuedAt, ExpiresAt: g.ExpiresAt, Now: g.IssuedAt}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Subject{
		Driver: driver(t), Grant: func() provider.Grant { return grant("web:registry.example.com/**:read") }, Unsupported: "web:evil.example/**:read",
	})
}

// TestCheck: only what the configuration allows can be asked for, of one host by its name.
//
//ebb:invariant I6 A credential-less lease covers only requests that the configuration of its provider still allows
func TestCheck(t *testing.T) {
	t.Parallel()
	d := driver(t)
	for scope, ok := range map[string]bool{
		"web:registry.example.com/**:read": true, "web:registry.example.com/a/*:read": true, "web:docs.example.com/v1/**:read": true, "web:hooks.example.com/in/a:write": true,
		"web:registry.example.com/**:write": false, "web:docs.example.com/**:read": false, "web:docs.example.com/v1:read": false, "web:*/**:read": false, "web:**:read": false,
		"web:registry.example.com:read": false, "web:registry.example.com/**:*": false, "web:evil.example/**:read": false, "web:REGISTRY.example.com/**:read": false,
		"web:registry.example.com/x:read web:evil.example/x:read": false,
	} {
		if err := d.Check(scopes.MustParseSet(scope)); (err == nil) != ok || err != nil && !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: %v", scope, err)
		}
	}
	for _, bad := range [][]string{nil, {"*/**:read"}, {"**:read"}, {"registry.example.com:read"}, {"registry.example.com/**:*"}, {"registry.example.com/**:get"}, {"localhost/**:read"}, {"10.0.0.1/**:read"}, {"REGISTRY.example.com/**:read"}, {"registry.example.com"}} {
		if _, err := web.New("web", web.Config{Allow: bad}); err == nil {
			t.Errorf("%q is a configuration", bad)
		}
	}
}

// TestInject: (E13, E55, E56, E57, E58, E60, E62, E66, E82) the driver adds no credential. It
// refuses a request that the scopes do not cover, or that servers could read in two ways.
//
//ebb:invariant I2 Each provider that checks requests suggests in a refusal only scopes that allow the refused request
//ebb:invariant I6 A credential-less lease covers only requests whose host, method and path match its scopes
//ebb:invariant I6 A credential-less lease covers only requests that the configuration of its provider still allows
func TestInject(t *testing.T) {
	t.Parallel()
	d := driver(t)
	for _, c := range []struct {
		scope, method, url string
		ok                 bool
	}{
		{"web:registry.example.com/**:read", "GET", "https://registry.example.com/", true},
		{"web:registry.example.com/**:read", "HEAD", "https://registry.example.com/a/b?x=1", true},
		{"web:registry.example.com/**:read", "GET", "https://registry.example.com/@scope%2fname", true},
		{"web:registry.example.com/a/*:read", "GET", "https://registry.example.com/a/b", true},
		{"web:hooks.example.com/in/a:write", "POST", "https://hooks.example.com/in/a", true},
		{"web:registry.example.com/cache/**:delete", "DELETE", "https://registry.example.com/cache/a", true},

		{"web:registry.example.com/**:read", "POST", "https://registry.example.com/a", false},
		{"web:registry.example.com/**:read", "DELETE", "https://registry.example.com/cache/a", false},
		{"web:registry.example.com/a/*:read", "GET", "https://registry.example.com/a/b%2fc", false},
		{"web:registry.example.com/a/*:read", "GET", "https://registry.example.com/a/b/c", false},
		{"web:registry.example.com/a/*:read", "GET", "https://registry.example.com/a/", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com/v1/../admin", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com/v1/%2e%2e/admin", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com/v1/..;/admin", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com/v1/..%2fadmin", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com/v1/a%5cb", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com//v1/a", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com/V1/a", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com/v1/a?_method=DELETE", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://registry.example.com/v1/a", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com:8443/v1/a", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://docs.example.com.evil.example/v1/a", false},
		{"web:docs.example.com/v1/**:read", "GET", "https://x@docs.example.com/v1/a", false},
		{"web:docs.example.com/v1/**:read", "GET", "http://docs.example.com/v1/a", false},
		// The configuration has never allowed it, or does not any more.
		{"web:evil.example/**:read", "GET", "https://evil.example/", false},
	} {
		r, err := http.NewRequest(c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		providertest.ScopesFor(t, d, "web", r, c.ok, lease)
		err = d.Inject(t.Context(), r, lease(c.scope))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s: %s %s: %v", c.scope, c.method, c.url, err)
		}
		if len(r.Header) != 0 || r.URL.String() != c.url {
			t.Errorf("it became %s %v", r.URL, r.Header)
		}
	}
	over := lease("web:registry.example.com/**:read")
	over.Now = over.ExpiresAt
	r, _ := http.NewRequest("GET", "https://registry.example.com/", nil)
	if err := d.Inject(t.Context(), r, over); err == nil {
		t.Error("a lease that is over lets a request through")
	}
}

// FuzzInject: the driver accepts an arbitrary request only if it reads below the scope's path at
// the scope's host over https.
func FuzzInject(f *testing.F) {
	d := driver(f)
	for _, u := range []string{"https://docs.example.com/v1/a?b=c", "https://x@docs.example.com:443//..%2f", "HTTPS://DOCS.example.com/v1/./;", "https://docs.example.com/v1/a%2fb"} {
		f.Add("GET", u, "X-Original-Url", "docs.example.com")
	}
	f.Fuzz(func(t *testing.T, method, text, header, host string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: host, Header: http.Header{header: {"x"}}}
		let := d.Inject(t.Context(), r, lease("web:docs.example.com/v1/**:read")) == nil
		providertest.ScopesFor(t, d, "web", r, let, lease)
		if !let {
			return
		}
		h := strings.ToLower(u.Host)
		if u.Scheme != "https" || method != "GET" && method != "HEAD" || h != "docs.example.com" && h != "docs.example.com:443" || u.User != nil || host != "" && host != u.Host ||
			!strings.HasPrefix(u.Path, "/v1/") || strings.Contains(u.Path, "/../") || strings.HasSuffix(u.Path, "/..") {
			t.Errorf("let through %s %q (host %q)", method, text, host)
		}
	})
}

// TestReadingSendsNothing: (E46) a body that goes out with a GET carries out what the box knows.
//
//ebb:invariant I6 A credential-less lease with a read scope covers no request with a body
func TestReadingSendsNothing(t *testing.T) {
	t.Parallel()
	d := driver(t)
	for _, tt := range []struct {
		scope, method, url string
		body               io.Reader
		ok                 bool
	}{
		{"web:registry.example.com/**:read", "GET", "https://registry.example.com/a", nil, true},
		{"web:registry.example.com/**:read", "GET", "https://registry.example.com/a", strings.NewReader("what the box knows"), false},
		{"web:registry.example.com/**:read", "HEAD", "https://registry.example.com/a", strings.NewReader("x"), false},
		{"web:hooks.example.com/in/*:write", "POST", "https://hooks.example.com/in/a", strings.NewReader("x"), true},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, tt.url, tt.body)
		if err != nil {
			t.Fatal(err)
		}
		providertest.ScopesFor(t, d, "web", r, tt.ok, lease)
		if err := d.Inject(t.Context(), r, lease(tt.scope)); (err == nil) != tt.ok || err != nil && !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s %s with %v: %v", tt.method, tt.url, tt.body, err)
		}
	}
}
