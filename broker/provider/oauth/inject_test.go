package oauth_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/oauth"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// injecting is a driver whose grant names requests.
func injecting(t testing.TB) provider.Injector {
	t.Helper()
	d, err := oauth.New("files", injectConfig(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.(provider.Injector)
}

func injectConfig() oauth.Config {
	return oauth.Config{
		TokenEndpoint: "https://api.example.com/login/token", RevocationEndpoint: "https://api.example.com/login/revoke",
		Client: oauth.Client{ID: "ebb", Auth: "client_secret_basic", SecretFile: "/secret"},
		Grants: map[string]oauth.Grant{
			"drive": {Actions: map[string]string{"read": "files.read", "write": "files.write", "share": "files.share"}, Requests: &oauth.Requests{
				Hosts:   []string{"api.example.com", "files.example.com:8443"},
				Actions: map[string]stricturl.Rule{"read": {Methods: []string{"GET"}, Paths: []string{"/v1/files", "/v1/files/**"}}, "write": {Methods: []string{"PUT"}, Paths: []string{"/v1/files/*"}}},
			}},
			"mail": {Actions: map[string]string{"read": "mail.read"}},
		},
	}
}

func held(scope string) provider.Target {
	now := time.Now()
	return provider.Target{LeaseID: "lse_1", Scopes: scopes.MustParseSet(scope), Handle: secret.New("at-canary"), IssuedAt: now, ExpiresAt: now.Add(time.Minute), Now: now}
}

// TestInject: (E13, E55, E56, E57, E58, E60, E66, E82) the driver sets a Bearer header at the configured hosts, for the requests of
// the scopes. It replaces the header that the sandbox has sent.
//
//ebb:invariant I2 Each provider that checks requests suggests in a refusal only scopes that allow the refused request
//ebb:invariant I6 The `oauth` provider adds its token only to requests whose host, method and path are configured for the lease's scopes
func TestInject(t *testing.T) {
	t.Parallel()
	d := injecting(t)
	for _, tt := range []struct {
		scope, method, url string
		ok                 bool
	}{
		{"files:drive:read", "GET", "https://api.example.com/v1/files?q=1", true},
		{"files:drive:read", "GET", "https://files.example.com:8443/v1/files/a/b", true},
		{"files:drive:read files:drive:write", "PUT", "https://api.example.com/v1/files/a", true},
		{"files:drive:read", "PUT", "https://api.example.com/v1/files/a", false},
		{"files:drive:write", "GET", "https://api.example.com/v1/files", false},
		{"files:drive:share", "GET", "https://api.example.com/v1/files", false},
		{"files:mail:read", "GET", "https://api.example.com/v1/files", false},
		{"files:drive:read", "GET", "https://api.example.com/login/token", false},
		{"files:drive:read", "GET", "https://api.example.com.evil.example/v1/files", false},
		{"files:drive:read", "GET", "https://files.example.com/v1/files", false},
		{"files:drive:read", "GET", "http://api.example.com/v1/files", false},
		{"files:drive:read", "GET", "https://x@api.example.com/v1/files", false},
		{"files:drive:read", "GET", "https://api.example.com/v1/files/../../login/token", false},
		{"files:drive:read", "GET", "https://api.example.com/v1/files/%2e%2e/x", false},
		{"files:drive:read", "GET", "https://api.example.com/v1/files/..;/x", false},
		{"files:drive:read", "GET", "https://api.example.com/v1/files/a%2fb", false},
		{"files:drive:read", "GET", "https://api.example.com/v1//files", false},
		{"files:drive:read", "GET", "https://api.example.com/v1/files?_method=DELETE", false},
	} {
		r, err := http.NewRequest(tt.method, tt.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["authorization"] = []string{"Bearer somebody-else"}
		providertest.ScopesFor(t, d, "files", r, tt.ok, held)
		err = d.Inject(t.Context(), r, held(tt.scope))
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s: %s %s: %v", tt.scope, tt.method, tt.url, err)
		}
		if got := r.Header.Get("Authorization"); tt.ok && (got != "Bearer at-canary" || len(r.Header) != 1) || !tt.ok && strings.Contains(got, "canary") {
			t.Errorf("%s %s: %v", tt.method, tt.url, r.Header)
		}
	}
	r, _ := http.NewRequest("GET", "https://api.example.com/v1/files", nil)
	over, none := held("files:drive:read"), held("files:drive:read")
	over.Now, none.Handle = over.ExpiresAt, secret.Secret{}
	for _, x := range []provider.Target{over, none} {
		if err := d.Inject(t.Context(), r, x); err == nil || r.Header.Get("Authorization") != "" {
			t.Errorf("%v", err)
		}
	}
}

// TestInjects: by egress go the actions whose requests are configured.
func TestInjects(t *testing.T) {
	t.Parallel()
	d := injecting(t)
	for scope, want := range map[string]bool{
		"files:drive:read": true, "files:drive:read files:drive:write": true, "files:drive:read files:drive:share": false, "files:mail:read": false, "files:drive:*": false, "": false,
	} {
		set, err := scopes.ParseSet(scope)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Injects(set); got != want {
			t.Errorf("%q: %v", scope, got)
		}
	}
}

// TestUpgrades: (E97) a WebSocket is opened only by a rule that says so, for its own requests.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	c := injectConfig()
	c.Grants["drive"].Requests.Actions["write"] = stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/v1/live"}, WebSocket: true}
	made, err := oauth.New("files", c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := made.(provider.Upgrader)
	for _, tt := range []struct {
		scope, url string
		want       bool
	}{
		{"files:drive:write", "https://api.example.com/v1/live", true},
		{"files:drive:read", "https://api.example.com/v1/live", false},
		{"files:drive:read files:drive:write", "https://api.example.com/v1/files", false},
		{"files:drive:write", "https://other.example.com/v1/live", false},
	} {
		r, _ := http.NewRequest(http.MethodGet, tt.url, nil)
		if got := d.Upgrades(r, held(tt.scope)); got != tt.want {
			t.Errorf("%s %s: %v", tt.scope, tt.url, got)
		}
	}
}

// TestRequestsThatAreRefused: (E89) a sandbox would receive the new credential in a response
// of the authorization server, so no rule may cover the server's endpoints.
//
//ebb:invariant I6 A configuration is refused if its OAuth request rules reach the token, revocation or introspection endpoint of the authorization server
func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*oauth.Requests){
		"no host":    func(q *oauth.Requests) { q.Hosts = nil },
		"pattern":    func(q *oauth.Requests) { q.Hosts = []string{"*.example.com"} },
		"upper case": func(q *oauth.Requests) { q.Hosts = []string{"API.example.com"} },
		"a secret":   func(q *oauth.Requests) { q.Disclosed = &provider.Disclosed{Members: []string{"a b"}} },
		"a WebSocket by PUT": func(q *oauth.Requests) {
			q.Actions["write"] = stricturl.Rule{Methods: []string{"PUT"}, Paths: []string{"/x"}, WebSocket: true}
		},
		"no action": func(q *oauth.Requests) { q.Actions = nil },
		"action":    func(q *oauth.Requests) { q.Actions["drop"] = q.Actions["read"] },
		"methods": func(q *oauth.Requests) {
			q.Actions["read"] = stricturl.Rule{Methods: []string{"TRACE"}, Paths: []string{"/x"}}
		},
		"paths": func(q *oauth.Requests) {
			q.Actions["read"] = stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/../x"}}
		},
		"token": func(q *oauth.Requests) {
			q.Actions["read"] = stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/**"}}
		},
		"revoke": func(q *oauth.Requests) {
			q.Actions["read"] = stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/login/*"}}
		},
	} {
		c := injectConfig()
		change(c.Grants["drive"].Requests)
		if _, err := oauth.New("files", c, nil, nil); err == nil || !strings.Contains(err.Error(), "grants.drive.requests") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzInject: for arbitrary requests, the driver adds a token only to a request for a configured
// host, over https, with an unambiguous path.
func FuzzInject(f *testing.F) {
	d := injecting(f)
	for _, u := range []string{"https://api.example.com/v1/files?a=b", "https://x@api.example.com:443//..%2f", "HTTPS://API.example.com./;"} {
		f.Add("GET", u, "X-Original-Url", "api.example.com")
	}
	f.Fuzz(func(t *testing.T, method, text, header, host string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: host, Header: http.Header{header: {"x"}}}
		err = d.Inject(t.Context(), r, held("files:drive:read"))
		if got := r.Header.Get("Authorization"); err != nil {
			if got == "Bearer at-canary" {
				t.Errorf("refused, and injected: %v", err)
			}
			return
		}
		h := strings.ToLower(u.Host)
		if u.Scheme != "https" || method != "GET" || h != "api.example.com" && h != "api.example.com:443" && h != "files.example.com:8443" || u.User != nil ||
			u.Path != "/v1/files" && !strings.HasPrefix(u.Path, "/v1/files/") || strings.Contains(u.Path, "/../") {
			t.Errorf("injected into %s %q (host %q)", method, text, host)
		}
	})
}
