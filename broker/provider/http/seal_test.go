package http_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	web "github.com/ebb-broker/ebb/broker/provider/http"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

func sealRule() provider.SealRoute {
	return provider.SealRoute{Method: "POST", Host: "login.example.com", Path: "/oauth/token", Members: []string{"access_token"}, Use: []string{"api.example.com/v1/**:read"}}
}

func sealConfig(rules ...provider.SealRoute) web.Config {
	return web.Config{Allow: []string{"login.example.com/oauth/**:write", "api.example.com/v1/**:read", "api.example.com/v2/**:read"}, SealResponse: rules}
}

func sealing(t testing.TB, rules ...provider.SealRoute) *web.Driver {
	t.Helper()
	d, err := web.New("web", sealConfig(rules...))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSealingConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Subject{
		Driver: sealing(t, sealRule()), Grant: func() provider.Grant { return grant("web:api.example.com/v1/**:read") }, Unsupported: "web:evil.example/**:read",
	})
}

// TestSealRulesThatAreRefused: a seal rule must be for one allowed route, and its resulting
// token for allowed requests.
//
//ebb:invariant I6 A configuration is refused if it adds a credential in a header for the destination, type or framing of a request
func TestSealRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*provider.SealRoute){
		"no method":          func(s *provider.SealRoute) { s.Method = "" },
		"method":             func(s *provider.SealRoute) { s.Method = "HEAD" },
		"lower case":         func(s *provider.SealRoute) { s.Method = "post" },
		"not allowed method": func(s *provider.SealRoute) { s.Method = "GET" },
		"host":               func(s *provider.SealRoute) { s.Host = "*.example.com" },
		"not allowed host":   func(s *provider.SealRoute) { s.Host = "evil.example" },
		"pattern":            func(s *provider.SealRoute) { s.Path = "/oauth/*" },
		"all below":          func(s *provider.SealRoute) { s.Path = "/oauth/**" },
		"slash":              func(s *provider.SealRoute) { s.Path = "/oauth/token/" },
		"relative":           func(s *provider.SealRoute) { s.Path = "oauth/token" },
		"not allowed path":   func(s *provider.SealRoute) { s.Path = "/token" },
		"no member":          func(s *provider.SealRoute) { s.Members = nil },
		"twice":              func(s *provider.SealRoute) { s.Members = []string{"a", "a"} },
		"five":               func(s *provider.SealRoute) { s.Members = []string{"a", "b", "c", "d", "e"} },
		"member":             func(s *provider.SealRoute) { s.Members = []string{"a\"b"} },
		"lifetime's member":  func(s *provider.SealRoute) { s.Members = []string{"expires_in"} },
		"no use":             func(s *provider.SealRoute) { s.Use = nil },
		"not allowed use":    func(s *provider.SealRoute) { s.Use = []string{"api.example.com/**:read"} },
		"use elsewhere":      func(s *provider.SealRoute) { s.Use = []string{"evil.example/**:read"} },
		"header":             func(s *provider.SealRoute) { s.Header = "X\r\nY" },
		"host header":        func(s *provider.SealRoute) { s.Header = "host" },
		"method header":      func(s *provider.SealRoute) { s.Header = "X-HTTP-Method-Override" },
		"framing":            func(s *provider.SealRoute) { s.Header = "Transfer-Encoding" },
		"prefix":             func(s *provider.SealRoute) { s.Header, s.Prefix = "X-Api-Key", "a\r\nb: " },
		"negative lifetime":  func(s *provider.SealRoute) { s.Lifetime = -1 },
		"no end":             func(s *provider.SealRoute) { s.Lifetime = 1 << 40 },
	} {
		s := sealRule()
		change(&s)
		if _, err := web.New("web", sealConfig(s)); err == nil {
			t.Errorf("%s: it is a configuration", name)
		}
	}
	if _, err := web.New("web", sealConfig(sealRule(), sealRule())); err == nil {
		t.Error("one route twice is a configuration")
	}
}

// TestSeals: (E89) of a route exactly, within what the lease is for, and never of a request that such a
// credential was added to. All else that is called so is marked.
func TestSeals(t *testing.T) {
	t.Parallel()
	d := sealing(t, sealRule())
	const all = "web:login.example.com/oauth/**:write web:api.example.com/v1/a/*:read web:api.example.com/v2/**:read"
	for _, tt := range []struct {
		method, url string
		want        string
	}{
		{"POST", "https://login.example.com/oauth/token", "web:api.example.com/v1/a/*:read"},
		{"POST", "https://login.example.com/oauth/token?x=1", "web:api.example.com/v1/a/*:read"},
		{"PUT", "https://login.example.com/oauth/token", "none"}, {"POST", "https://login.example.com/oauth/token/", "none"}, {"POST", "https://login.example.com/oauth/Token", "none"},
		{"POST", "https://login.example.com/oauth%2ftoken", "none"}, {"POST", "https://login.example.com:8443/oauth/token", "none"}, {"POST", "https://api.example.com/oauth/token", "none"},
	} {
		r, err := http.NewRequest(tt.method, tt.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if s := d.Seals(r, lease(all)); s != nil {
			got = s.Scopes.String()
		}
		if got != tt.want || d.Discloses(r, lease(all)).Empty() {
			t.Errorf("%s %s: %s", tt.method, tt.url, got)
		}
	}
	r, _ := http.NewRequest("POST", "https://login.example.com/oauth/token", nil)
	if s := d.Seals(r, lease("web:login.example.com/oauth/**:write")); s == nil || !s.Scopes.Empty() {
		t.Errorf("without a use: %+v", s)
	}
	made := lease(all)
	made.Handle = d.Seals(r, made).Handle(secret.New("at_0123456789"))
	if d.Seals(r, made) != nil {
		t.Error("what an answer has made makes more")
	}
	if plain := driver(t); plain.Seals(r, made) != nil || plain.Discloses(r, made) != nil || plain.Traits().Seals || plain.Traits().Revocability.Class != provider.ClassInstant {
		t.Error("a provider without routes seals")
	}
	if tr := d.Traits(); !tr.Seals || tr.Revocability.Class != provider.ClassTTLOnly || tr.ThirdParty {
		t.Errorf("%+v", tr)
	}
}

// TestInjectsWhatWasMade: it is added where the configuration still says so, in its header, and to nothing else.
//
//ebb:invariant I5 A stored credential from an upstream response is used only while the configuration still has a route that creates such credentials
func TestInjectsWhatWasMade(t *testing.T) {
	t.Parallel()
	key := sealRule()
	key.Header, key.Prefix, key.Lifetime = "x-api-key", "", 60
	now, later := sealing(t, key), sealing(t, sealRule())
	r, _ := http.NewRequest("POST", "https://login.example.com/oauth/token", nil)
	made := lease("web:api.example.com/v1/**:read")
	s := now.Seals(r, made)
	if s.Lifetime != time.Minute {
		t.Errorf("%v", s.Lifetime)
	}
	made.Handle = s.Handle(secret.New("at_0123456789"))
	for _, tt := range []struct {
		d   *web.Driver
		url string
		ok  bool
	}{
		{now, "https://api.example.com/v1/a", true}, {now, "https://api.example.com/v2/a", false}, {now, "https://login.example.com/oauth/token", false},
		{later, "https://api.example.com/v1/a", false}, {driver(t), "https://api.example.com/v1/a", false},
	} {
		r, _ := http.NewRequest("GET", tt.url, nil)
		r.Header.Set("X-Api-Key", "mine")
		err := tt.d.Inject(t.Context(), r, made)
		want := "mine"
		if tt.ok {
			want = "at_0123456789"
		}
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, provider.ErrElsewhere) || r.Header.Get("X-Api-Key") != want {
			t.Errorf("%s: %v, %v", tt.url, err, r.Header)
		}
	}
	made.Handle = secret.New(`{"value":7}`)
	r, _ = http.NewRequest("GET", "https://api.example.com/v1/a", nil)
	if err := now.Inject(t.Context(), r, made); err == nil || len(r.Header) != 0 {
		t.Errorf("what is no such handle: %v", err)
	}
	made.Handle, made.Scopes = s.Handle(secret.New("at_0123456789")), scopes.MustParseSet("web:api.example.com/v2/**:read")
	r, _ = http.NewRequest("GET", "https://api.example.com/v2/a", nil)
	if err := now.Inject(t.Context(), r, made); !errors.Is(err, provider.ErrElsewhere) {
		t.Errorf("for what no route makes any: %v", err)
	}
}
