package static_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/broker/vaultapi"
	"github.com/ebb-broker/ebb/broker/vaultapi/vaulttest"
)

// TestWhereTheSecretGoes: (E75) the driver puts the secret at its place, and removes other
// values from there.
func TestWhereTheSecretGoes(t *testing.T) {
	t.Parallel()
	s := vaultOf(t, "stripe", "sk&canary")
	for name, tt := range map[string]struct {
		place static.Place
		want  string
	}{
		"bearer":   {static.Place{Header: "Authorization", Prefix: "Bearer "}, "Authorization: Bearer sk&canary\r\n"},
		"header":   {static.Place{Header: "X-Api-Key"}, "X-Api-Key: sk&canary\r\n"},
		"password": {static.Place{Basic: &static.Basic{User: "bot"}}, "Authorization: Basic Ym90OnNrJmNhbmFyeQ==\r\n"}, // bot:sk&canary
		"user":     {static.Place{Basic: &static.Basic{}}, "Authorization: Basic c2smY2FuYXJ5Og==\r\n"},                // sk&canary:
		"query":    {static.Place{Query: "key"}, "GET /v1/charges?a=1&b=%20&key=sk%26canary HTTP/1.1\r\n"},
	} {
		c := config()
		c.Inject = tt.place
		r := request(t, "GET", "https://api.example.com/v1/charges?a=1&key=mine&b=%20&%6bey=mine")
		r.Header["authorization"] = []string{"Basic mine"}
		r.Header["AUTHORIZATION"] = []string{"Basic mine"}
		r.Header["X_Api_Key"] = []string{"mine"}
		r.Header.Set("X-Api-Key", "mine")
		r.Header.Add("X-Api-Key", "mine")
		r.Trailer = http.Header{"Authorization": {"mine"}, "X-Api-Key": {"mine"}}
		if err := driver(t, c, s).Inject(t.Context(), r, lease("stripe:charges:read")); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := wire(t, r)
		if strings.Count(got, tt.want) != 1 || tt.place.Query == "" && strings.Count(strings.ToLower(strings.ReplaceAll(got, "_", "-")), strings.ToLower(tt.want[:strings.Index(tt.want, ":")+1])) != 1 {
			t.Errorf("%s: %s", name, got)
		}
		if tt.place.Header != "" && r.Trailer[tt.place.Header] != nil {
			t.Errorf("%s: the trailer says otherwise", name)
		}
	}
}

// TestOnlyItsOwnRequests: the driver accepts only the configured hosts, schemes, methods and
// paths (E12, E13, E14, E17, E41, E48, E55, E56, E57, E58, E60, E61, E62, E65, E66, E82).
//
//ebb:invariant I2 Each provider that checks requests suggests in a refusal only scopes that allow the refused request
func TestOnlyItsOwnRequests(t *testing.T) {
	t.Parallel()
	d := driver(t, config(), vaultOf(t, "stripe", canary))
	const h = "https://api.example.com"
	for _, tt := range []struct {
		scope, method, url string
		ok                 bool
	}{
		{"charges:read", "GET", h + "/v1/charges", true},
		{"charges:read", "HEAD", h + "/v1/charges/ch_1", true},
		{"charges:read", "GET", h + "/v1/charges/ch_1/refunds/", true},
		{"charges:read", "GET", h + ":443/v1/charges", true},
		{"charges:read", "GET", "https://API.Example.com/v1/charges", true},
		{"charges:read", "GET", "https://files.example.com:8443/v1/charges", true},
		{"charges:read", "GET", h + "/v1/charges?limit=3&x=%C3%A9", true},
		{"charges:read", "GET", h + "/v1/charges/a%2Db", true},
		{"charges:write", "POST", h + "/v1/charges/ch_1/refund", true},
		{"all:use", "GET", h + "/", true},
		{"all:use", "GET", h + "/anything/at/all", true},

		{"charges:read", "POST", h + "/v1/charges", false},
		{"charges:read", "get", h + "/v1/charges", false},
		{"charges:read", "CONNECT", h + "/v1/charges", false},
		{"charges:write", "GET", h + "/v1/charges", false},
		{"charges:write", "POST", h + "/v1/charges/ch_1/x/refund", false},
		{"charges:write", "POST", h + "/v1/charges//refund", false},
		{"charges:read", "GET", h + "/v1/chargesx", false},
		{"charges:read", "GET", h + "/v1/Charges", false},
		{"charges:read", "GET", h + "/v1", false},
		{"charges:read", "GET", h, false},
		{"charges:read", "GET", h + "/v1/charges/../admin", false},
		{"charges:read", "GET", h + "/v1/charges/%2e%2e/admin", false},
		{"charges:read", "GET", h + "/v1/charges/..%2fadmin", false},
		{"charges:read", "GET", h + "/v1/charges/%252e%252e/admin", false},
		{"charges:read", "GET", h + "/v1/charges/..;/admin", false},
		{"charges:read", "GET", h + "/v1/charges/..\\admin", false},
		{"charges:read", "GET", h + "/v1/charges/%5c..%5cadmin", false},
		{"charges:read", "GET", h + "/v1/charges/．．/admin", false},
		{"charges:read", "GET", h + "/v1/charges/%00", false},
		{"charges:read", "GET", h + "/v1/charges/%0d%0aX:1", false},
		{"charges:read", "GET", h + "/v1//charges", false},
		{"charges:read", "GET", h + "//v1/charges", false},
		{"charges:read", "GET", h + "/./v1/charges", false},
		{"charges:read", "GET", h + "/v1/charges?a=1;b=2", false},
		{"charges:read", "GET", h + "/v1/charges?a=%zz", false},
		{"charges:read", "GET", h + "/v1/charges?_method=DELETE", false},

		{"all:use", "GET", "http://api.example.com/", false},
		{"all:use", "GET", "http://api.example.com:443/", false},
		{"all:use", "GET", "ws://api.example.com/", false},
		{"all:use", "GET", h + ":8443/", false},
		{"all:use", "GET", h + ":/", false},
		{"all:use", "GET", h + ":0443/", false},
		{"all:use", "GET", "https://files.example.com/", false},
		{"all:use", "GET", "https://api.example.com./", false},
		{"all:use", "GET", "https://api.example.com.evil.test/", false},
		{"all:use", "GET", "https://evil.test/api.example.com", false},
		{"all:use", "GET", "https://evil-api.example.com/", false},
		{"all:use", "GET", "https://sub.api.example.com/", false},
		{"all:use", "GET", "https://example.com/", false},
		{"all:use", "GET", "https://x@api.example.com/", false},
		{"all:use", "GET", "https://api.example.com@evil.test/", false},
		{"all:use", "GET", "https://api.example.com:x@evil.test/", false},
		{"all:use", "GET", "https://ａpi.example.com/", false},       // full width
		{"all:use", "GET", "https://аpi.example.com/", false},       // Cyrillic a
		{"all:use", "GET", "https://api.example。com/", false},       // ideographic full stop
		{"all:use", "GET", "https://api.ex\u00adample.com/", false}, // soft hyphen
		{"all:use", "GET", "https://xn--pi-6kc.example.com/", false},
		{"all:use", "GET", "https://api%2eexample.com/", false},
		{"all:use", "GET", "https://[::1]/", false},
		{"all:use", "GET", "https://127.0.0.1/", false},
		{"gone:read", "GET", h + "/v1/charges", false}, // not configured any more
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			if tt.ok {
				t.Errorf("%s: %v", tt.url, err)
			}
			continue
		}
		r := &http.Request{Method: tt.method, URL: u, Host: u.Host, Header: http.Header{}}
		providertest.ScopesFor(t, d, "stripe", r, tt.ok, lease)
		err = d.Inject(t.Context(), r, lease("stripe:"+tt.scope))
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s %s for %s: %v", tt.method, tt.url, tt.scope, err)
		}
		if err != nil && (len(r.Header) != 0 || strings.Contains(r.URL.String(), "canary") || strings.Contains(err.Error(), "evil") || strings.Contains(err.Error(), "admin")) {
			t.Errorf("%s: after %q the request is %v", tt.url, err, r.Header)
		}
	}
}

// TestFoldingHosts: Unicode case folding makes the Kelvin sign equal to the letter K, and the
// long s equal to S. The driver compares hosts byte by byte.
func TestFoldingHosts(t *testing.T) {
	t.Parallel()
	c := config()
	c.Hosts = []string{"kiosk.example.com"}
	d := driver(t, c, vaultOf(t, "stripe", canary))
	for host, ok := range map[string]bool{"KIOSK.example.com": true, "\u212aiosk.example.com": false, "kio\u017fk.example.com": false} {
		r := &http.Request{Method: "GET", URL: &url.URL{Scheme: "https", Host: host, Path: "/"}, Header: http.Header{}}
		if err := d.Inject(t.Context(), r, lease("stripe:all:use")); (err == nil) != ok {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// TestRequestsWithTwoFaces: (E21, E66, E67) requests whose parts contradict each other, or
// that ask servers to interpret them as other requests.
func TestRequestsWithTwoFaces(t *testing.T) {
	t.Parallel()
	d := driver(t, config(), vaultOf(t, "stripe", canary))
	for name, change := range map[string]func(*http.Request){
		"host":       func(r *http.Request) { r.Host = "evil.test" },
		"host, case": func(r *http.Request) { r.Host = "API.example.com" },
		"opaque": func(r *http.Request) {
			r.URL = &url.URL{Scheme: "https", Opaque: "//evil.test/", Host: "api.example.com", Path: "/"}
		},
		"no URL":        func(r *http.Request) { r.URL = nil },
		"method":        func(r *http.Request) { r.Header.Set("X-HTTP-Method-Override", "DELETE") },
		"method, lower": func(r *http.Request) { r.Header["x_http_method"] = []string{"DELETE"} },
		"path":          func(r *http.Request) { r.Header.Set("X-Original-URL", "/admin") },
		"rewrite":       func(r *http.Request) { r.Header.Set("X-Rewrite-Url", "/admin") },
		"raw path":      func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/v1/charges/a/admin", "/v1/charges/a%2fadmin" },
		"no path":       func(r *http.Request) { r.URL.Path = "" },
		"relative":      func(r *http.Request) { r.URL.Path = "v1/charges" },
		"space":         func(r *http.Request) { r.URL.RawQuery = "a=1 HTTP/1.1\r\nX: y" },
	} {
		r := request(t, "GET", "https://api.example.com/v1/charges")
		change(r)
		if err := d.Inject(t.Context(), r, lease("stripe:charges:read")); !errors.Is(err, provider.ErrElsewhere) || r.Header.Get("Authorization") != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*provider.Target){
		"no lease": func(x *provider.Target) { x.LeaseID = "" },
		"over":     func(x *provider.Target) { x.Now = x.ExpiresAt },
		"no end":   func(x *provider.Target) { x.ExpiresAt = time.Time{} },
		"nothing":  func(x *provider.Target) { *x = provider.Target{} },
	} {
		x := lease("stripe:charges:read")
		change(&x)
		r := request(t, "GET", "https://api.example.com/v1/charges")
		if err := d.Inject(t.Context(), r, x); err == nil || r.Header.Get("Authorization") != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSecretChangesUnderUs: (E93) a new secret is used from the next request on, and a removed
// one no longer, also for earlier leases.
func TestSecretChangesUnderUs(t *testing.T) {
	t.Parallel()
	s := vaultOf(t, "stripe", "the first")
	d, x := driver(t, config(), s), lease("stripe:charges:read")
	inject := func() (string, error) {
		r := request(t, "GET", "https://api.example.com/v1/charges")
		err := d.Inject(t.Context(), r, x)
		return r.Header.Get("Authorization"), err
	}
	if got, err := inject(); got != "Bearer the first" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := s.Put(t.Context(), "stripe", secret.New("the second")); err != nil {
		t.Fatal(err)
	}
	if got, err := inject(); got != "Bearer the second" {
		t.Errorf("after a change: %q, %v", got, err)
	}
	if err := s.Put(t.Context(), "stripe", secret.New("bad\r\nX: 1")); err != nil {
		t.Fatal(err)
	}
	if got, err := inject(); got != "" || err == nil || errors.Is(err, provider.ErrElsewhere) {
		t.Errorf("after a bad change: %q, %v", got, err)
	}
	if err := s.Remove(t.Context(), "stripe"); err != nil {
		t.Fatal(err)
	}
	if got, err := inject(); got != "" || err == nil || errors.Is(err, provider.ErrElsewhere) {
		t.Errorf("after the removal: %q, %v", got, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := request(t, "GET", "https://api.example.com/v1/charges")
	if err := d.Inject(gone, r, x); err == nil {
		t.Error("a store that nobody waited for gave a secret")
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := vaultOf(t, "stripe", "version 0")
	d := driver(t, config(), s)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				r := request(t, "GET", "https://api.example.com/v1/charges")
				if err := d.Inject(t.Context(), r, lease("stripe:charges:read")); err != nil || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer version ") {
					t.Errorf("%v", err)
				}
			}
		})
		wg.Go(func() {
			if err := s.Put(t.Context(), "stripe", secret.New(fmt.Sprintf("version %d", i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestVaultKV: the secret is in a real Vault, where it is changed, deleted and forbidden.
func TestVaultKV(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	mount := v.Name("kv")
	v.Write(t, "sys/mounts/"+mount, map[string]any{"type": "kv", "options": map[string]any{"version": "2"}})
	policy := v.Policy(t, "static", `path "`+mount+`/data/stripe" { capabilities = ["read"] }`)
	c := config()
	c.Secret, c.Vault = "", &static.KV{Config: vaultapi.Config{Address: v.Address, Auth: v.AppRole(t, policy)}, Mount: mount, Path: "stripe", Field: "key"}
	d := driver(t, c, nil)
	inject := func(d *static.Driver) (string, error) {
		r := request(t, "GET", "https://api.example.com/v1/charges")
		err := d.Inject(t.Context(), r, lease("stripe:charges:read"))
		return r.Header.Get("Authorization"), err
	}
	missing := func(when string) {
		t.Helper()
		if got, err := inject(d); got != "" || err == nil {
			t.Errorf("%s: %q, %v", when, got, err)
		}
		if _, err := d.Mint(t.Context(), grant("stripe:charges:read")); !errors.Is(err, provider.ErrRefused) {
			t.Errorf("%s: Mint: %v", when, err)
		}
		if f := d.CheckSetup(t.Context()); len(f) != 1 || !f[0].Fatal {
			t.Errorf("%s: %+v", when, f)
		}
	}
	missing("nothing there")
	for _, value := range []string{"the-first", "the-second"} {
		v.Write(t, mount+"/data/stripe", map[string]any{"data": map[string]any{"key": value}})
		if got, err := inject(d); got != "Bearer "+value {
			t.Errorf("%q, %v", got, err)
		}
	}
	if f := d.CheckSetup(t.Context()); len(f) != 0 {
		t.Errorf("%+v", f)
	}
	if _, err := v.Root.Logical().DeleteWithContext(t.Context(), mount+"/data/stripe"); err != nil {
		t.Fatal(err)
	}
	missing("deleted")
	v.Write(t, mount+"/data/stripe", map[string]any{"data": map[string]any{"other": "x", "key": 7}})
	missing("another form")
	c.Vault.Path = "elsewhere"
	if got, err := inject(driver(t, c, nil)); got != "" || err == nil || !strings.Contains(err.Error(), "capability") {
		t.Errorf("forbidden: %q, %v", got, err)
	}
}

// FuzzInject: the driver changes an arbitrary request only if it goes to the configured host, over
// https, with an unambiguous path. It adds the secret and nothing else.
func FuzzInject(f *testing.F) {
	d := driver(f, config(), vaultOf(f, "stripe", canary))
	for _, s := range []string{"https://api.example.com/v1/charges?a=b", "https://x@api.example.com:443//..%2f", "HTTPS://API.example.com./;"} {
		f.Add("GET", s, "X-Original-Url", "api.example.com")
	}
	f.Fuzz(func(t *testing.T, method, text, header, host string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: host, Header: http.Header{header: {"x"}}}
		if err := d.Inject(t.Context(), r, lease("stripe:charges:read")); err != nil {
			if r.Header.Get("Authorization") == "Bearer "+canary {
				t.Errorf("refused, and injected: %v", err)
			}
			return
		}
		h := strings.ToLower(u.Host)
		if u.Scheme != "https" || h != "api.example.com" && h != "api.example.com:443" && h != "files.example.com:8443" || u.User != nil || host != "" && host != u.Host {
			t.Errorf("injected into %q (host %q)", text, host)
		}
		if p := u.EscapedPath(); p != "/v1/charges" && !strings.HasPrefix(p, "/v1/charges/") && !strings.Contains(p, "%") || strings.Contains(p, "..") {
			t.Errorf("injected into the path %q", p)
		}
		if r.Header.Get("Authorization") != "Bearer "+canary || method != "GET" && method != "HEAD" {
			t.Errorf("%s %q: %v", method, text, r.Header)
		}
	})
}

// TestUpgrades: (E97) a WebSocket is opened only by a rule that says so, at a host of the provider's,
// for its own requests.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	c := config()
	c.Grants["charges"]["listen"] = static.Rule{Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/v1/live"}, WebSocket: true}}
	d := driver(t, c, vaultOf(t, "stripe", canary))
	for _, tt := range []struct {
		scope, method, url string
		want               bool
	}{
		{"stripe:charges:listen", http.MethodGet, "https://api.example.com/v1/live", true},
		{"stripe:charges:read stripe:charges:listen", http.MethodGet, "https://api.example.com/v1/live", true},
		{"stripe:all:use", http.MethodGet, "https://api.example.com/v1/live", false},
		{"stripe:all:use stripe:charges:listen", http.MethodGet, "https://api.example.com/v1/charges", false},
		{"stripe:charges:listen", http.MethodPost, "https://api.example.com/v1/live", false},
		{"stripe:charges:listen", http.MethodGet, "https://other.example.com/v1/live", false},
		{"stripe:charges:listen", http.MethodGet, "https://api.example.com/v1/x/../live", false},
	} {
		if got := d.Upgrades(request(t, tt.method, tt.url), lease(tt.scope)); got != tt.want {
			t.Errorf("%s %s %s: %v", tt.scope, tt.method, tt.url, got)
		}
	}
}
