package api_test

import (
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/oidc"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// clientEBB is ebb's client id at the identity provider, as docs/reference/operations.md configures it.
const clientEBB = "ebb"

// persons is a server on which eva is an approver by an ID token of an issuer,
// and zoe a viewer.
type persons struct {
	*rig
	issuer *attesttest.Issuer
	start  time.Time
}

func newPersons(t *testing.T, acr ...string) persons {
	t.Helper()
	start := time.Now().UTC().Truncate(time.Second)
	clock := attesttest.NewClock()
	clock.Set(start)
	issuer := attesttest.NewIssuer(t, clock)
	sso, err := oidc.New(oidc.Config{Name: "sso", Issuer: issuer.URL, Audience: clientEBB, JWKSURL: issuer.JWKSURL, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, options{broker: brokertest.Config{Start: start, Attestors: map[string]attest.Attestor{"sso": sso}}})
	cfg := r.env.Config
	cfg.Registerer, cfg.ACRValues = nil, acr
	for name, role := range map[string]broker.Role{"eva": broker.RoleApprover, "zoe": broker.RoleViewer} {
		cfg.Principals = append(cfg.Principals, broker.PrincipalConfig{
			Principal: broker.Principal{ID: name + "@acme.test", Roles: []broker.Role{role}, Groups: []string{"approvers"}},
			Match:     &broker.Match{Attestor: "sso", Selectors: map[string]string{"sub": name}},
		})
	}
	if r.env.Broker, err = core.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r.env.Registry = prometheus.NewRegistry()
	r.serve(t, options{})
	return persons{r, issuer, start}
}

// claims returns the claims of a valid ID token of eva, changed by more.
func (p persons) claims(more attesttest.Claims) attesttest.Claims {
	c := attesttest.Claims{"sub": "eva", "aud": clientEBB, "auth_time": p.start.Add(-time.Minute).Unix()}
	maps.Copy(c, more)
	return c
}

func (p persons) exchange(t *testing.T, token string, more ...string) *answer {
	t.Helper()
	f := with(url.Values{"grant_type": {grantExchange}, "subject_token": {token}, "subject_token_type": {typeIDToken}}, more...)
	return p.post(t, tokenURL, f, header("DPoP", p.proof(t, brokertest.NewKey(t), http.MethodPost, tokenURL, "")))
}

// TestTokensOfOtherKindsMakeNoPerson: a token that the identity provider signed
// for ebb's audience, but that is not an ID token of a sign-in at ebb's client,
// gives no role.
//
//ebb:invariant I6 A token for another client or of another kind, though signed by the same issuer, does not authenticate a person
//ebb:invariant I6 An ID token whose `azp` claim names another client does not authenticate a person
func TestTokensOfOtherKindsMakeNoPerson(t *testing.T) {
	t.Parallel()
	p := newPersons(t)
	logout := attesttest.Claims{"http://schemas.openid.net/event/backchannel-logout": attesttest.Claims{}}
	for name, c := range map[string]struct{ header, claims attesttest.Claims }{
		"two audiences, azp of another client": {nil, attesttest.Claims{"aud": []string{clientEBB, "other-app"}, "azp": "other-app"}},
		"two audiences without azp":            {nil, attesttest.Claims{"aud": []string{clientEBB, "other-app"}}},
		"azp of another client":                {nil, attesttest.Claims{"azp": "other-app"}},
		"azp that is a list":                   {nil, attesttest.Claims{"azp": []string{clientEBB}}},
		"azp in another case":                  {nil, attesttest.Claims{"azp": "Ebb"}},
		"azp that is empty":                    {nil, attesttest.Claims{"azp": ""}},
		"azp that is null":                     {attesttest.Claims{}, attesttest.Claims{"azp": rawNull}},
		"access token, typ JWT":                {nil, attesttest.Claims{"scope": "openid profile", "client_id": clientEBB}},
		"access token with scope alone":        {nil, attesttest.Claims{"scope": "openid"}},
		"access token with client_id alone":    {nil, attesttest.Claims{"client_id": clientEBB}},
		"access token, RFC 9068":               {attesttest.Claims{"typ": "at+jwt"}, attesttest.Claims{"client_id": clientEBB}},
		"access token of Keycloak":             {nil, attesttest.Claims{"typ": "Bearer", "azp": clientEBB, "acr": "1", "sid": "s"}},
		"refresh token of Keycloak":            {nil, attesttest.Claims{"typ": "Refresh", "azp": clientEBB}},
		"offline token of Keycloak":            {nil, attesttest.Claims{"typ": "Offline", "azp": clientEBB}},
		"typ of the payload that is a list":    {nil, attesttest.Claims{"typ": []string{"ID"}}},
		"access token of Entra":                {nil, attesttest.Claims{"azp": clientEBB, "azpacr": "1", "scp": "user.read", "ver": "2.0"}},
		"access token of an app at Entra":      {nil, attesttest.Claims{"appid": clientEBB, "appidacr": "1", "idtyp": "app"}},
		"access token of Okta":                 {nil, attesttest.Claims{"cid": clientEBB, "scp": []string{"openid"}}},
		"access token of Auth0":                {nil, attesttest.Claims{"azp": clientEBB, "gty": "password"}},
		"access token of Cognito":              {nil, attesttest.Claims{"token_use": "access"}},
		"logout token":                         {attesttest.Claims{"typ": "logout+jwt"}, attesttest.Claims{"events": logout, "sid": "s"}},
		"logout token, typ JWT":                {nil, attesttest.Claims{"events": logout, "sid": "s"}},
		"security event":                       {attesttest.Claims{"typ": "secevent+jwt"}, attesttest.Claims{"events": attesttest.Claims{}}},
		"token of somebody who acts for eva":   {nil, attesttest.Claims{"act": attesttest.Claims{"sub": "mallory"}}},
		"client assertion":                     {attesttest.Claims{"typ": "client-authentication+jwt"}, nil},
		"DPoP proof":                           {attesttest.Claims{"typ": "dpop+jwt"}, nil},
		"request object":                       {attesttest.Claims{"typ": "oauth-authz-req+jwt"}, nil},
		"without iat":                          {nil, attesttest.Claims{"iat": nil}},
	} {
		for _, who := range []string{"eva", "zoe"} {
			claims := p.claims(c.claims)
			claims["sub"] = who
			p.exchange(t, p.issuer.TokenWith(c.header, claims)).want(t, name+" of "+who, 400, "invalid_request")
		}
	}
}

// rawNull is the JSON null; a nil claim is omitted instead.
var rawNull = (*string)(nil)

// TestIDTokensOfProviders: the ID tokens of Keycloak, Dex, Entra ID, Google and
// Okta are accepted. If the issuer does not send the time of the sign-in, the
// person does not get the role approver.
func TestIDTokensOfProviders(t *testing.T) {
	t.Parallel()
	p := newPersons(t)
	at := p.start.Add(-time.Minute).Unix()
	for name, more := range map[string]attesttest.Claims{
		"plain":         {},
		"Keycloak":      {"typ": "ID", "azp": clientEBB, "auth_time": at, "nonce": "n", "sid": "s", "at_hash": "h", "acr": "1", "email_verified": true, "preferred_username": "eva"},
		"Entra":         {"ver": "2.0", "tid": "t", "oid": "o", "rh": "r", "uti": "u", "nonce": "n", "preferred_username": "eva@acme.test", "roles": []string{"x"}, "auth_time": at},
		"Okta":          {"ver": 1, "amr": []string{"pwd", "mfa"}, "idp": "i", "nonce": "n", "auth_time": at, "at_hash": "h"},
		"Cognito":       {"token_use": "id", "auth_time": at, "cognito:username": "eva"},
		"an array":      {"aud": []string{clientEBB}},
		"two, azp ours": {"aud": []string{clientEBB, "other-app"}, "azp": clientEBB},
	} {
		a := p.exchange(t, p.issuer.Token(p.claims(more)))
		if a.status != 200 || a.text("scope") != "approver" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for name, more := range map[string]attesttest.Claims{
		"Dex":    {"sub": "zoe", "auth_time": nil, "at_hash": "h", "c_hash": "c", "email": "zoe@acme.test", "name": "Zoe"},
		"Google": {"sub": "zoe", "auth_time": nil, "azp": clientEBB, "hd": "acme.test", "email": "zoe@acme.test", "at_hash": "h"},
	} {
		if a := p.exchange(t, p.issuer.Token(p.claims(more))); a.status != 200 || a.text("scope") != "viewer" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		more["sub"] = "eva"
		p.exchange(t, p.issuer.Token(p.claims(more))).want(t, name+" for an approver, without auth_time", 400, "invalid_request")
	}
}

// TestApproverProvesPresence: a token with the role approver needs the same
// proof as the console: a sign-in within the last 10 minutes with a configured
// acr. The token expires with that proof.
//
//ebb:invariant I4 An access token with the approver role expires at most ten minutes after the sign-in of its ID token
//ebb:invariant I6 A token with the role approver requires a sign-in within the last ten minutes that has the configured strength
func TestApproverProvesPresence(t *testing.T) {
	t.Parallel()
	p := newPersons(t, "phr", "phrh")
	for name, c := range map[string]struct {
		claims attesttest.Claims
		status int
	}{
		"just now, strong":         {attesttest.Claims{"acr": "phr"}, 200},
		"just now, other strong":   {attesttest.Claims{"acr": "phrh"}, 200},
		"weak acr":                 {attesttest.Claims{"acr": "pwd"}, 400},
		"no acr":                   {nil, 400},
		"acr that is a list":       {attesttest.Claims{"acr": []string{"phr"}}, 400},
		"no auth_time":             {attesttest.Claims{"acr": "phr", "auth_time": nil}, 400},
		"auth_time that is text":   {attesttest.Claims{"acr": "phr", "auth_time": "now"}, 400},
		"auth_time in the future":  {attesttest.Claims{"acr": "phr", "auth_time": p.start.Add(5 * time.Minute).Unix()}, 400},
		"ten minutes ago and more": {attesttest.Claims{"acr": "phr", "auth_time": p.start.Add(-11 * time.Minute).Unix()}, 400},
	} {
		if a := p.exchange(t, p.issuer.Token(p.claims(c.claims))); a.status != c.status {
			t.Errorf("%s: got %d %s, want %d", name, a.status, a.body, c.status)
		} else if c.status == 400 && strings.Contains(a.text("error_description"), "eva") {
			t.Errorf("%s: the answer repeats the token: %s", name, a.body)
		}
	}
	a := p.exchange(t, p.issuer.Token(p.claims(attesttest.Claims{"acr": "phr", "auth_time": p.start.Add(-9 * time.Minute).Unix(), "jti": rand.Text()})))
	if a.status != 200 || a.number("expires_in") > 60 {
		t.Errorf("9 minutes after the sign-in: got %d %s, want a token for a minute", a.status, a.body)
	}
	if a := p.exchange(t, p.issuer.Token(p.claims(attesttest.Claims{"sub": "zoe", "auth_time": nil}))); a.status != 200 {
		t.Errorf("a viewer needs no fresh sign-in: %d %s", a.status, a.body)
	}
}
