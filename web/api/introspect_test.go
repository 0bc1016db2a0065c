package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

func TestRFC_A68_Unauthenticated(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	token := b.access(t, canRead)
	f := url.Values{"token": {token}}
	for name, a := range map[string]*answer{
		"nobody":               r.post(t, "/oauth2/introspect", f),
		"only a client_id":     r.post(t, "/oauth2/introspect", with(f, "client_id", brokertest.Server)),
		"a bad assertion":      r.post(t, "/oauth2/introspect", with(f, "client_assertion_type", assertionType, "client_assertion", "a.b.c")),
		"a sandbox":            r.post(t, "/oauth2/introspect", with(f, b.assertion(t)...), b.prove(t)),
		"another's key":        r.post(t, "/oauth2/introspect", with(f, "client_assertion_type", assertionType, "client_assertion", r.env.Assertion(t, brokertest.Server, b.key))),
		"Basic":                r.post(t, "/oauth2/introspect", f, header("Authorization", "Basic YTpi")),
		"a secret":             r.post(t, "/oauth2/introspect", with(f, "client_id", brokertest.Server, "client_secret", "s")),
		"another's client_id":  r.post(t, "/oauth2/introspect", with(r.client(t, brokertest.Server, f), "client_id", brokertest.Operator)),
		"no token, no caller":  r.post(t, "/oauth2/introspect", url.Values{}),
		"an assertion, reused": reused(t, r, f),
	} {
		a.want(t, name, 401, "invalid_client")
		if a.json["active"] != nil || strings.Contains(a.body, "scope") {
			t.Errorf("%s: the answer says something of the token: %s", name, a.body)
		}
	}
	r.post(t, "/oauth2/introspect", f, header("Authorization", "DPoP "+token), header("DPoP", r.proof(t, b.key, "POST", "/oauth2/introspect", token))).
		want(t, "the token itself as credential", 401, "invalid_token")
	r.post(t, "/oauth2/introspect", r.client(t, brokertest.Runner, f)).want(t, "a principal without the role", 400, "unauthorized_client")
}

// reused sends one assertion twice (A91).
func reused(t testing.TB, r *rig, f url.Values) *answer {
	f = r.client(t, brokertest.Server, f)
	if a := r.post(t, "/oauth2/introspect", f); a.status != 200 {
		t.Errorf("first use: %d %s", a.status, a.body)
	}
	return r.post(t, "/oauth2/introspect", f)
}

func TestRFC_A69_A73_Inactive(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	good, mail := b.access(t, canRead), b.access(t, "mail:inbox:read")
	revoked := b.access(t, "orders:eu/43:read")
	r.post(t, "/oauth2/revoke", with(url.Values{"token": {revoked}}, b.assertion(t)...), b.prove(t))
	head, body := claims(t, good)
	closed := r.sandbox(t)
	dead := closed.access(t, canRead)
	r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+closed.task+"/complete", nil)
	short := b.access(t, "orders:eu/44:read", "requested_expiry", "1")
	r.env.Clock.Add(2 * time.Second)
	for name, token := range map[string]string{
		"garbage": "x", "malformed": "a.b.c", "forged": attesttest.Forge(t, b.key, head, body), "changed": changeOne(good), "A73 foreign audience": mail,
		"revoked": revoked, "task complete": dead, "expired": short, "a task token": b.token, "a proof": r.proof(t, b.key, "POST", tokenURL, ""),
		"for /v1": r.apiToken(t, brokertest.Operator), "huge": strings.Repeat("a", 30<<10),
	} {
		if a := r.introspect(t, token); a.status != 200 || a.body != `{"active":false}` {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if !r.active(t, good) {
		t.Error("the good one is not active any more")
	}
}

func TestRFC_A70_NoToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	r.post(t, "/oauth2/introspect", r.client(t, brokertest.Server, url.Values{})).want(t, "no token", 400, "invalid_request")
	r.post(t, "/oauth2/introspect", r.client(t, brokertest.Server, url.Values{"token": {""}})).want(t, "an empty one", 400, "invalid_request")
}

func TestRFC_A71_A72_Active(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	token := b.access(t, canRead)
	for _, hint := range []string{"", "access_token", "refresh_token", "nonsense"} {
		a := r.post(t, "/oauth2/introspect", r.client(t, brokertest.Server, url.Values{"token": {token}, "token_type_hint": {hint}}))
		if a.json["active"] != true || a.text("scope") != canRead || a.text("token_type") != "DPoP" || a.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("hint %q: %d %s", hint, a.status, a.body)
		}
		_, c := claims(t, token)
		for name, want := range c {
			if detailsText(t, a.json[name]) != detailsText(t, want) {
				t.Errorf("%s: introspection says %v, the token %v", name, a.json[name], want)
			}
		}
		if cnf := detailsText(t, a.json["cnf"]); cnf != `{"jkt":"`+b.jkt+`"}` {
			t.Errorf("A72 cnf %s", cnf)
		}
		if exp := a.number("exp"); exp != float64(int64(exp)) || exp <= 0 {
			t.Errorf("A71 exp %v", a.json["exp"])
		}
	}
}

// An operator may use an access token for /v1 instead of an assertion.
func TestIntrospectWithToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	token := r.sandbox(t).access(t, canRead)
	who, key := r.apiToken(t, brokertest.Operator), r.env.Keys[brokertest.Operator]
	proof := func() func(*http.Request) { return header("DPoP", r.proof(t, key, "POST", "/oauth2/introspect", who)) }
	auth := header("Authorization", "DPoP "+who)
	if a := r.post(t, "/oauth2/introspect", url.Values{"token": {token}}, auth, proof()); a.json["active"] != true {
		t.Errorf("%d %s", a.status, a.body)
	}
	both := r.client(t, brokertest.Server, url.Values{"token": {token}})
	r.post(t, "/oauth2/introspect", both, auth, proof()).want(t, "A11 two methods", 400, "invalid_request")
	a := r.post(t, "/oauth2/introspect", url.Values{"token": {token}}, auth)
	a.want(t, "no proof", 400, "invalid_dpop_proof")
	bearer := r.post(t, tokenURL, r.client(t, brokertest.Server, url.Values{"grant_type": {grantCredentials}})).text("access_token")
	if a := r.post(t, "/oauth2/introspect", url.Values{"token": {token}}, header("Authorization", "Bearer "+bearer)); a.json["active"] != true {
		t.Errorf("an unbound token of a resource server: %d %s", a.status, a.body)
	}
}
