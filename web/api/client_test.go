package api_test

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/oidc"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// A90, A91, A92, H14: client assertions, at introspection and for client_credentials.
func TestRFC_A90_A91_A92_H14_ClientAssertions(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	now := r.env.Clock.Now()
	base := func(who string) map[string]any {
		return map[string]any{"iss": who, "sub": who, "aud": brokertest.Issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
	}
	for name, change := range map[string]map[string]any{
		"A90 token endpoint":      {"aud": brokertest.Issuer + tokenURL},
		"A90 two audiences":       {"aud": []string{brokertest.Issuer, "https://other.test"}},
		"H14 no audience":         {"aud": nil},
		"H14 empty audience":      {"aud": []string{}},
		"H14 trailing slash":      {"aud": brokertest.Issuer + "/"},
		"H14 another case":        {"aud": "https://EBB.test"},
		"A91 no exp":              {"exp": nil},
		"A91 past":                {"exp": now.Add(-time.Hour).Unix(), "iat": now.Add(-2 * time.Hour).Unix()},
		"A91 ten years":           {"exp": now.AddDate(10, 0, 0).Unix()},
		"A91 iat in the future":   {"iat": now.Add(time.Hour).Unix(), "exp": now.Add(time.Hour + time.Minute).Unix()},
		"A91 no jti":              {"jti": nil},
		"H13 exp as text":         {"exp": "9999999999"},
		"A92 iss differs":         {"iss": "somebody"},
		"A92 sub differs":         {"sub": brokertest.Runner},
		"H15 iss with a slash":    {"iss": brokertest.Server + "/"},
		"H24 control in sub":      {"sub": brokertest.Server + "\x00", "iss": brokertest.Server + "\x00"},
		"H11 case-folded":         {"AUD": "https://evil.test"},
		"H50 a person's name":     {"iss": "bo@example.com", "sub": "bo@example.com"},
		"H15 an unknown client":   {"iss": "nobody", "sub": "nobody"},
		"H50 the broker's name":   {"iss": "ebb", "sub": "ebb"},
		"sandbox that is unknown": {"iss": "sbx_" + strings.Repeat("0", 32), "sub": "sbx_" + strings.Repeat("0", 32)},
	} {
		c := base(brokertest.Server)
		for k, v := range change {
			if c[k] = v; v == nil {
				delete(c, k)
			}
		}
		a := attesttest.Forge(t, r.env.Keys[brokertest.Server], map[string]any{"typ": "JWT", "alg": "ES256"}, c)
		f := url.Values{"client_assertion_type": {assertionType}, "client_assertion": {a}}
		r.post(t, "/oauth2/introspect", with(f, "token", "x")).want(t, name+" (introspect)", 401, "invalid_client")
		r.post(t, tokenURL, with(f, "grant_type", grantCredentials, "scope", canRead), b.prove(t)).want(t, name+" (token)", 401, "invalid_client")
	}
	for name, head := range map[string]map[string]any{
		"H1 none": {"alg": "none"}, "H2 HS256": {"alg": "HS256"}, "H8 crit": {"alg": "ES256", "crit": []string{"x"}}, "A97 jku": {"alg": "ES256", "jku": "https://evil.test/jwks"},
		"A97 x5u": {"alg": "ES256", "x5u": "http://169.254.169.254/"}, "H5 jwk": {"alg": "ES256", "jwk": attesttest.PublicJWK(t, b.key)}, "H16 typ of a proof": {"alg": "ES256", "typ": "dpop+jwt"},
		"H16 typ of a token": {"alg": "ES256", "typ": "at+jwt"}, "H9 nested": {"alg": "ES256", "cty": "JWT"},
	} {
		for who, key := range map[string]jose.Signer{brokertest.Server: r.env.Keys[brokertest.Server], b.client: b.key} {
			f := url.Values{"client_assertion_type": {assertionType}, "client_assertion": {attesttest.Forge(t, key, head, base(who))}}
			r.post(t, tokenURL, with(f, "grant_type", grantCredentials, "scope", canRead), b.prove(t)).want(t, name, 401, "invalid_client")
		}
	}
	f := with(url.Values{"grant_type": {grantCredentials}, "scope": {canRead}}, b.assertion(t)...)
	if a := r.post(t, tokenURL, f, b.prove(t)); a.status != 200 {
		t.Fatalf("a good one after all that: %d %s", a.status, a.body)
	}
	r.post(t, tokenURL, f, b.prove(t)).want(t, "A91 the same again", 401, "invalid_client")
	thief := r.sandbox(t)
	f = with(url.Values{"grant_type": {grantCredentials}, "scope": {canRead}}, b.assertion(t)...)
	r.post(t, tokenURL, f, thief.prove(t)).want(t, "an assertion with another's proof", 400, "invalid_dpop_proof")
}

// idp is an issuer of workload and person tokens.
type idp struct {
	key jose.Signer
	att attest.Attestor
	now func() time.Time
}

const idpURL = "https://idp.test"

func newIDP(t testing.TB, now func() time.Time) *idp {
	t.Helper()
	p := &idp{key: brokertest.NewKey(t), now: now}
	jwk := attesttest.PublicJWK(t, p.key)
	jwk["kid"], jwk["use"], jwk["alg"] = "k1", "sig", "ES256"
	set, err := json.Marshal(map[string]any{"keys": []any{jwk}})
	if err != nil {
		t.Fatal(err)
	}
	p.att, err = oidc.New(oidc.Config{Name: "idp", Issuer: idpURL, Audience: brokertest.Issuer, JWKS: set, Algs: []jose.Alg{jose.ES256},
		Subject: "sub", Selectors: map[string]string{"repo": "repo", "email": "email"}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *idp) token(t testing.TB, more map[string]any) string {
	t.Helper()
	c := map[string]any{"iss": idpURL, "aud": brokertest.Issuer, "sub": "repo:acme/web", "repo": "acme/web", "jti": rand.Text(),
		"iat": p.now().Unix(), "exp": p.now().Add(10 * time.Minute).Unix()}
	maps.Copy(c, more)
	return attesttest.Forge(t, p.key, map[string]any{"alg": "ES256", "kid": "k1", "typ": "JWT"}, c)
}

// A workload of an OIDC issuer acts with its own evidence, by all three grants.
// Each grant reports errors with the codes of its protocol.
//
//ebb:invariant I4
//ebb:invariant I6 A token for several audiences is refused unless the configuration names them, and as a client assertion it is always refused
func TestWorkloadEvidence(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	p := newIDP(t, func() time.Time { return start })
	r := newRig(t, options{broker: brokertest.Config{Start: start, Attestors: map[string]attest.Attestor{"idp": p.att}}})
	for name, c := range map[string]struct {
		param  string
		more   []string
		status int
		code   string
	}{
		"token-exchange":     {"subject_token", []string{"grant_type", grantExchange, "subject_token_type", typeJWT}, 400, "invalid_request"},
		"id_token":           {"subject_token", []string{"grant_type", grantExchange, "subject_token_type", typeIDToken}, 400, "invalid_request"},
		"jwt-bearer":         {"assertion", []string{"grant_type", grantJWTBearer}, 400, "invalid_grant"},
		"client_credentials": {"client_assertion", []string{"grant_type", grantCredentials, "client_assertion_type", assertionType}, 401, "invalid_client"},
	} {
		s := spec()
		s.Ticket, s.Expect = false, broker.Expect{Attestor: "idp", Selectors: map[string]string{"repo": "acme/web"}}
		task := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks", s).json["task"].(map[string]any)["id"].(string)
		b := &box{r: r, key: brokertest.NewKey(t), task: task}
		form := func(document string, more ...string) url.Values {
			return with(with(url.Values{"task_id": {task}, "scope": {canRead}, c.param: {document}}, c.more...), more...)
		}
		evidence := p.token(t, nil)
		for range 2 { // workload tokens are legitimately reused
			a := r.post(t, tokenURL, form(evidence), b.prove(t))
			if a.status != 200 {
				t.Fatalf("%s: %d %s", name, a.status, a.body)
			}
			_, got := claims(t, a.text("access_token"))
			if got["exp"].(float64) > float64(start.Add(10*time.Minute).Unix()) {
				t.Errorf("%s: the token outlives the evidence", name)
			}
		}
		for what, bad := range map[string]string{
			"A15 another repo": p.token(t, map[string]any{"repo": "acme/evil"}), "expired": p.token(t, map[string]any{"exp": start.Add(-time.Hour).Unix()}),
			"A94 another audience": p.token(t, map[string]any{"aud": "https://other.test"}), "H14 several audiences": p.token(t, map[string]any{"aud": []string{brokertest.Issuer, "https://other.test"}}), "unknown issuer": p.token(t, map[string]any{"iss": "https://evil.test"}),
			"garbage": "a.b.c", "A58 bound to another key": p.token(t, map[string]any{"cnf": map[string]any{"jkt": strings.Repeat("A", 43)}}),
		} {
			r.post(t, tokenURL, form(bad), b.prove(t)).want(t, name+": "+what, c.status, c.code)
		}
		r.post(t, tokenURL, form(p.token(t, nil), "task_id", "tsk_"+strings.Repeat("0", 32)), b.prove(t)).want(t, name+": H59 an unknown task", c.status, c.code)
		thief := &box{r: r, key: brokertest.NewKey(t)}
		r.post(t, tokenURL, form(p.token(t, nil)), thief.prove(t)).want(t, name+": evidence of the right kind, another key", c.status, c.code)
		if name == "token-exchange" {
			r.post(t, tokenURL, form(evidence, "task_id", "-"), b.prove(t)).want(t, name+": no task", 400, "invalid_request")
		}
	}
}

// A person's ID token becomes an access token for /v1 with that person's roles.
func TestPersonExchange(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	p := newIDP(t, func() time.Time { return start })
	r := newRig(t, options{broker: brokertest.Config{Start: start, Attestors: map[string]attest.Attestor{"idp": p.att}}})
	cfg := r.env.Config
	cfg.Registerer = nil
	cfg.Principals = append(cfg.Principals, broker.PrincipalConfig{
		Principal: broker.Principal{ID: "eva", Roles: []broker.Role{broker.RoleAuditor}},
		Match:     &broker.Match{Attestor: "idp", Selectors: map[string]string{"email": "eva@acme.test"}},
	})
	var err error
	if r.env.Broker, err = core.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r.env.Registry = prometheus.NewRegistry()
	r.serve(t, options{})
	key := brokertest.NewKey(t)
	ask := func(token string, more ...string) *answer {
		f := with(url.Values{"grant_type": {grantExchange}, "subject_token": {token}, "subject_token_type": {typeIDToken}}, more...)
		return r.post(t, tokenURL, f, header("DPoP", r.proof(t, key, "POST", tokenURL, "")))
	}
	a := ask(p.token(t, map[string]any{"email": "eva@acme.test"}))
	if a.status != 200 || a.text("scope") != "auditor" || a.text("issued_token_type") != typeAccess {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := r.v1With(t, a.text("access_token"), key, http.MethodGet, "/v1/audit", nil); got.status != 200 {
		t.Errorf("reading the record: %d %s", got.status, got.body)
	}
	ask(p.token(t, map[string]any{"email": "mallory@acme.test"})).want(t, "somebody unknown", 400, "invalid_request")
	ask("a.b.c").want(t, "garbage", 400, "invalid_request")
	ask(p.token(t, map[string]any{"email": "eva@acme.test"}), "resource", brokertest.Orders).want(t, "for a provider", 400, "invalid_target")
}
