package static_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/ebb-broker/ebb/broker/clientcert/clientcerttest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/providertest"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

func sealRoute() provider.SealRoute {
	return provider.SealRoute{Method: "POST", Host: "api.example.com", Path: "/oauth/token", Members: []string{"access_token", "session"}, Use: []string{"charges:read", "feed:listen"}}
}

// client is a configuration whose secret logs in at a token endpoint.
func client(routes ...provider.SealRoute) static.Config {
	c := config()
	c.Inject = static.Place{Basic: &static.Basic{User: "bot"}}
	c.Grants["token"] = map[string]static.Rule{"create": {Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/oauth/token"}}}, "renew": {Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/oauth/token"}}}}
	c.Grants["feed"] = map[string]static.Rule{"listen": {Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/feed"}, WebSocket: true}}, "look": {Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/feed"}}}}
	c.SealResponse = routes
	return c
}

func TestSealingConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Subject{
		Driver: driver(t, client(sealRoute()), vaultOf(t, "stripe", canary)), Grant: func() provider.Grant { return grant("stripe:token:create stripe:charges:read") }, Unsupported: "stripe:gone:read",
	})
}

// TestSealRoutesThatAreRefused: the host of a route must be one of the provider's, the secret
// must be sent there, and the resulting token must be for configured scopes.
//
//ebb:invariant I6 A token endpoint route is refused in the configuration if only scopes for use of the resulting token cover it
func TestSealRoutesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := vaultOf(t, "stripe", canary)
	for name, change := range map[string]func(*provider.SealRoute){
		"no host":             func(r *provider.SealRoute) { r.Host = "" },
		"another host":        func(r *provider.SealRoute) { r.Host = "evil.example.com" },
		"another port":        func(r *provider.SealRoute) { r.Host = "api.example.com:8443" },
		"no port":             func(r *provider.SealRoute) { r.Host = "files.example.com" },
		"path of no rule":     func(r *provider.SealRoute) { r.Path = "/login" },
		"method of no rule":   func(r *provider.SealRoute) { r.Method = "PUT" },
		"use of no rule":      func(r *provider.SealRoute) { r.Use = []string{"gone:read"} },
		"use of a pattern":    func(r *provider.SealRoute) { r.Use = []string{"*:read"} },
		"use with a provider": func(r *provider.SealRoute) { r.Use = []string{"stripe:charges:read"} },
		"use that is itself":  func(r *provider.SealRoute) { r.Use = []string{"token:create", "token:renew"} },
		"header":              func(r *provider.SealRoute) { r.Header = "Content-Type" },
		"no members":          func(r *provider.SealRoute) { r.Members = nil },
	} {
		r := sealRoute()
		change(&r)
		if _, err := static.New("stripe", client(r), s, nil); err == nil {
			t.Errorf("%s: it is a configuration", name)
		}
	}
	port := sealRoute()
	port.Host = "files.example.com:8443"
	if _, err := static.New("stripe", client(sealRoute(), port), s, nil); err != nil {
		t.Errorf("two hosts: %v", err)
	}
	if _, err := static.New("stripe", client(sealRoute(), sealRoute()), s, nil); err == nil {
		t.Error("one route twice is a configuration")
	}
}

// TestSeals: (E89) the driver seals exactly the responses of configured routes that the lease's scopes cover. It marks the values
// of the configured member names in every response.
//
//ebb:invariant I5 A credential created by an upstream response has only scopes that its lease also has
//ebb:invariant I8 A provider that seals credentials marks values with the member names of all its seal routes in every response, whatever the route, method or status
func TestSeals(t *testing.T) {
	t.Parallel()
	c := client(sealRoute())
	c.Disclosed = &provider.Disclosed{}
	d, plain := driver(t, c, vaultOf(t, "stripe", canary)), driver(t, client(), vaultOf(t, "stripe", canary))
	of := lease("stripe:token:create stripe:charges:read stripe:charges:write")
	for _, tt := range []struct {
		method, url string
		want        string
	}{
		{"POST", "https://api.example.com/oauth/token", "stripe:charges:read"}, {"POST", "https://api.example.com/oauth/token?a=1", "stripe:charges:read"},
		{"GET", "https://api.example.com/oauth/token", ""}, {"POST", "https://api.example.com/oauth/token/", ""}, {"POST", "https://api.example.com/oauth%2ftoken", ""},
		{"POST", "https://files.example.com:8443/oauth/token", ""}, {"POST", "https://evil.example.com/oauth/token", ""}, {"POST", "http://api.example.com/oauth/token", ""},
	} {
		r, got := request(t, tt.method, tt.url), ""
		if s := d.Seals(r, of); s != nil {
			got = s.Scopes.String()
		}
		if names := d.Discloses(r, of); got != tt.want || !slices.Equal(names.Members, []string{"access_token", "session"}) || plain.Seals(r, of) != nil {
			t.Errorf("%s %s: %q, %v", tt.method, tt.url, got, names)
		}
	}
	if s := d.Seals(request(t, "POST", "https://api.example.com/oauth/token"), lease("stripe:token:create")); s == nil || !s.Scopes.Empty() {
		t.Errorf("without a use: %+v", s)
	}
	if tr := d.Traits(); !tr.Seals || !tr.InjectOnly || tr.Credentialless || tr.ThirdParty || tr.Revocability.Class != provider.ClassTTLOnly {
		t.Errorf("%+v", tr)
	}
	if tr := plain.Traits(); tr.Seals || tr.Revocability.Class != provider.ClassInstant {
		t.Errorf("%+v", tr)
	}
}

// TestInjectsWhatWasMade: the driver adds a token from a sealed response to the requests of
// its lease, also to those that start a WebSocket. It never adds the secret to these requests.
//
//ebb:invariant I6 The secret that logs in at a token endpoint is added to no request that is meant for the resulting token
func TestInjectsWhatWasMade(t *testing.T) {
	t.Parallel()
	s := vaultOf(t, "stripe", canary)
	d, without := driver(t, client(sealRoute()), s), driver(t, client(), s)
	own := lease("stripe:charges:read stripe:charges:write stripe:feed:listen stripe:feed:look stripe:token:create")
	made := lease("stripe:charges:read stripe:feed:listen")
	made.Handle = d.Seals(request(t, "POST", "https://api.example.com/oauth/token"), own).Handle(secret.New("at_0123456789"))
	const token, basic = "Bearer at_0123456789", "Basic Ym90OnNrX2xpdmVfY2FuYXJ5" // bot:sk_live_canary
	for _, tt := range []struct {
		d                 *static.Driver
		t                 provider.Target
		method, url, want string
	}{
		{d, made, "GET", "/v1/charges", token}, {d, made, "GET", "/feed", token}, {d, made, "POST", "/v1/charges", ""}, {d, made, "POST", "/oauth/token", ""},
		{d, own, "GET", "/v1/charges", ""}, {d, own, "POST", "/v1/charges", basic}, {d, own, "POST", "/oauth/token", basic}, {d, own, "GET", "/feed", basic},
		{without, made, "GET", "/v1/charges", ""}, {without, own, "GET", "/v1/charges", basic},
	} {
		r := request(t, tt.method, "https://api.example.com"+tt.url)
		err := tt.d.Inject(t.Context(), r, tt.t)
		if got := r.Header.Get("Authorization"); got != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, provider.ErrElsewhere) {
			t.Errorf("%s %s: %q, %v", tt.method, tt.url, got, err)
		}
	}
	r := request(t, http.MethodGet, "https://api.example.com/feed")
	if !d.Upgrades(r, made) || d.Upgrades(r, own) || !without.Upgrades(r, own) {
		t.Error("a WebSocket is opened by what is not for it, or is not by what is")
	}
	made.Handle = secret.New(canary)
	if err := d.Inject(t.Context(), request(t, "GET", "https://api.example.com/v1/charges"), made); err == nil {
		t.Error("what is no such handle is added")
	}
}

// TestMadeOverACertificate: a token that is bound to the certificate of its client (RFC 8705 section 3) is used over
// connections that show it.
func TestMadeOverACertificate(t *testing.T) {
	t.Parallel()
	c := client(sealRoute())
	c.Secret, c.Inject, c.ClientCertificate = "", static.Place{}, &static.Kept{Secret: "mtls"}
	d := driver(t, c, vaultOf(t, "mtls", clientcerttest.New(t).Client(t, "ebb")))
	own := lease("stripe:charges:read stripe:token:create")
	login, use := request(t, "POST", "https://api.example.com/oauth/token"), request(t, "GET", "https://api.example.com/v1/charges")
	if shown, err := d.Presents(t.Context(), login, own); err != nil || shown == nil {
		t.Errorf("at the token endpoint: %v, %v", shown, err)
	}
	if shown, err := d.Presents(t.Context(), use, own); !errors.Is(err, provider.ErrElsewhere) || shown != nil {
		t.Errorf("without a token: %v, %v", shown, err)
	}
	made := lease("stripe:charges:read")
	made.Handle = d.Seals(login, own).Handle(secret.New("at_0123456789"))
	if shown, err := d.Presents(t.Context(), use, made); err != nil || shown == nil {
		t.Errorf("with a token: %v, %v", shown, err)
	}
	if err := d.Inject(t.Context(), use, made); err != nil || use.Header.Get("Authorization") != "Bearer at_0123456789" {
		t.Errorf("with a token: %v", err)
	}
}
