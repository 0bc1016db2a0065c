package api_test

import (
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

func TestRFC_A13_A14_H44_SubjectAndActor(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for name, more := range map[string][]string{
		"A13 no subject_token":          {"subject_token", "-"},
		"A13 no subject_token_type":     {"subject_token_type", "-"},
		"A14 actor_token alone":         {"actor_token", b.token},
		"A14 actor_token_type alone":    {"actor_token_type", typeTask},
		"H44 an actor of one's own":     {"actor_token", b.token, "actor_token_type", typeTask},
		"H44 unknown type":              {"subject_token_type", "urn:ietf:params:oauth:token-type:saml2"},
		"H44 refresh_token as a type":   {"subject_token_type", "urn:ietf:params:oauth:token-type:refresh_token"},
		"H44 asks for a refresh token":  {"requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token"},
		"H44 asks for an id token":      {"requested_token_type", typeIDToken},
		"a client assertion beside it":  b.assertion(t),
		"an expiry that is no number":   {"requested_expiry", "1h"},
		"a negative expiry":             {"requested_expiry", "-1"},
		"an expiry of zero":             {"requested_expiry", "0"},
		"an expiry beyond all bounds":   {"requested_expiry", "99999999999999999999"},
		"a tool name without end":       {"tool", strings.Repeat("a", 65)},
		"a reason without end":          {"reason", strings.Repeat("a", 4001)},
		"a task of somebody else":       {"task_id", "tsk_" + strings.Repeat("0", 32)},
		"a task that is no task":        {"task_id", "../x"},
		"a poll's parameter is ignored": {"subject_token_type", "x", "deferral_code", "x"},
	} {
		b.ask(t, canRead, more...).want(t, name, 400, "invalid_request")
	}
	for _, kind := range []string{typeAccess, typeJWT} {
		if a := b.ask(t, canRead, "requested_token_type", kind); a.status != 200 {
			t.Errorf("requested_token_type %s: %d %s", kind, a.status, a.body)
		}
	}
	if a := b.ask(t, canRead, "subject_token_type", typeJWT); a.status != 200 {
		t.Errorf("a task token as jwt: %d %s", a.status, a.body)
	}
}

// A15, A105, D5: every defect of a subject_token gives invalid_request.
func TestRFC_A15_BadSubjectToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	head, body := claims(t, b.token)
	changed := func(name string, v any) string {
		c := maps.Clone(body)
		c[name] = v
		return attesttest.Forge(t, b.key, head, c)
	}
	access := b.access(t, canRead)
	for name, token := range map[string]string{
		"garbage":            "x",
		"three dots":         "a.b.c",
		"forged":             changed("exp", body["exp"]),
		"expired":            changed("exp", 1),
		"foreign issuer":     changed("iss", "https://evil.test"),
		"alg none":           attesttest.Forge(t, b.key, `{"alg":"none","typ":"ebb-task+jwt"}`, `{}`),
		"truncated":          b.token[:len(b.token)-5],
		"an access token":    access,
		"a client assertion": r.env.Assertion(t, b.client, b.key),
		"a proof":            r.proof(t, b.key, "POST", tokenURL, ""),
	} {
		for _, kind := range []string{typeTask, typeJWT} {
			b.ask(t, canRead, "subject_token", token, "subject_token_type", kind, "task_id", b.task).want(t, name+" as "+kind, 400, "invalid_request")
		}
	}
	fresh := r.sandbox(t)
	r.env.Clock.Add(2 * time.Hour)
	fresh.ask(t, canRead).want(t, "a task token that has expired", 400, "invalid_request")
}

func TestRFC_A16_A17_H45_Targets(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for name, more := range map[string][]string{
		"A16 unknown":                  {"resource", "https://unknown.test/"},
		"A16 of another provider":      {"resource", brokertest.Mail},
		"A16 the broker itself":        {"resource", brokertest.Issuer + "/v1"},
		"A16 unknown audience":         {"audience", "mail"},
		"A17 relative":                 {"resource", "/orders"},
		"A17 fragment":                 {"resource", brokertest.Orders + "#x"},
		"H45 javascript":               {"resource", "javascript:alert(1)"},
		"H45 decimal loopback":         {"resource", "https://2130706433/"},
		"H45 IPv6-mapped loopback":     {"resource", "https://[::ffff:127.0.0.1]/"},
		"H45 user information":         {"resource", "https://orders.test@evil.test/"},
		"H45 plain http":               {"resource", "http://orders.test/"},
		"H45 upper case":               {"resource", "https://ORDERS.test/"},
		"H45 without the last slash":   {"resource", "https://orders.test"},
		"H45 newline":                  {"resource", brokertest.Orders + "\n"},
		"authorization_details beside": {"resource", brokertest.Mail, "authorization_details", `[{"type":"ebb_credential","provider":"orders","identifier":"eu/42","actions":["read"],"locations":["` + brokertest.Orders + `"]}]`},
	} {
		b.ask(t, canRead, more...).want(t, name, 400, "invalid_target")
	}
	r.postRaw(t, tokenURL, b.exchange(canRead).Encode()+strings.Repeat("&resource="+url.QueryEscape(brokertest.Orders), 50), b.prove(t)).want(t, "H45 fifty targets", 400, "invalid_target")
	if a := b.ask(t, canRead, "resource", brokertest.Orders); a.status != 200 {
		t.Errorf("the right target: %d %s", a.status, a.body)
	}
}

func TestRFC_A19_ScopeInTheAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for _, scope := range []string{canRead, "orders:eu/43:read " + canRead, "orders:eu/*:read"} {
		a := b.ask(t, scope)
		if a.status != 200 || !set(a.text("scope")).Equal(set(scope)) {
			t.Errorf("%s: %d %s", scope, a.status, a.body)
		}
	}
}

func TestRFC_A21_A65_WhoActsForWhom(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	_, c := claims(t, b.access(t, canRead))
	if c["sub"] != "bo@example.com" || c["client_id"] != b.client {
		t.Errorf("sub %v, client_id %v", c["sub"], c["client_id"])
	}
	act, _ := c["act"].(map[string]any)
	if act["sub"] != b.client || act["exp"] != nil || act["aud"] != nil || act["nbf"] != nil {
		t.Errorf("act %v", act)
	}
	// A65: the runner determines the subject, never the sandbox.
	b.ask(t, canRead, "client_id", "bo@example.com").want(t, "client_id of a person", 401, "invalid_client")
	if a := b.ask(t, canRead, "sub", "root"); a.status == 200 {
		if _, c := claims(t, a.text("access_token")); c["sub"] != "bo@example.com" {
			t.Errorf("a parameter chose sub %v", c["sub"])
		}
	}
}

// A22, A23, H49: act and may_act of a forged subject token have no effect.
func TestRFC_A22_A23_H49_ForgedDelegation(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	head, body := claims(t, b.token)
	for _, extra := range []map[string]any{
		{"may_act": map[string]any{"sub": "somebody"}}, {"act": map[string]any{"sub": "root"}}, {"may_act": map[string]any{"sub": b.client}},
	} {
		c := maps.Clone(body)
		maps.Copy(c, extra)
		b.ask(t, canRead, "subject_token", attesttest.Forge(t, b.key, head, c)).want(t, "forged delegation", 400, "invalid_request")
	}
}

// A24: a stolen subject token alone gets no token.
func TestRFC_A24_StolenSubjectToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b, thief := r.sandbox(t), r.sandbox(t)
	r.post(t, tokenURL, b.exchange(canRead)).want(t, "no proof", 400, "invalid_dpop_proof")
	f := b.exchange(canRead)
	r.post(t, tokenURL, f, thief.prove(t)).want(t, "the thief's key", 400, "invalid_request")
	r.post(t, tokenURL, with(f, "client_id", thief.client), thief.prove(t)).want(t, "the thief's name too", 400, "invalid_request")
}

// A25, H48: an access token of the sandbox can be narrowed and nothing else.
func TestRFC_A25_H48_Laundering(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	wide := "orders:eu/42:read orders:eu/43:read"
	token := b.access(t, wide, "requested_expiry", "120")
	narrow := func(scope string, more ...string) *answer {
		return b.ask(t, scope, append([]string{"subject_token", token, "subject_token_type", typeAccess}, more...)...)
	}
	a := narrow(canRead, "requested_expiry", "3600")
	if a.status != 200 || a.text("scope") != canRead || a.number("expires_in") > 120 {
		t.Fatalf("narrowing: %d %s", a.status, a.body)
	}
	_, parent := claims(t, token)
	_, child := claims(t, a.text("access_token"))
	if parent["txn"] != child["txn"] || child["exp"].(float64) > parent["exp"].(float64) {
		t.Errorf("txn %v -> %v, exp %v -> %v", parent["txn"], child["txn"], parent["exp"], child["exp"])
	}
	narrow("orders:eu/44:read").want(t, "another scope", 400, "invalid_scope")
	narrow("orders:eu/**:read").want(t, "a wider scope", 400, "invalid_scope")
	narrow("mail:inbox:read").want(t, "another provider", 400, "invalid_scope")
	narrow(canRead, "resource", brokertest.Mail).want(t, "another resource", 400, "invalid_target")
	thief := r.sandbox(t)
	thief.ask(t, canRead, "subject_token", token, "subject_token_type", typeAccess).want(t, "another sandbox", 400, "invalid_request")
	r.post(t, "/oauth2/revoke", with(url.Values{"token": {token}}, b.assertion(t)...), b.prove(t))
	fresh := b.ask(t, canRead, "subject_token", token, "subject_token_type", typeAccess)
	fresh.want(t, "a revoked token", 400, "invalid_request")
}

// A26: a token without ebb's scopes, as those for /v1, is not unlimited.
func TestRFC_A26_UnknownScope(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	token, key := r.apiToken(t, brokertest.Operator), r.env.Keys[brokertest.Operator]
	f := url.Values{"grant_type": {grantExchange}, "subject_token": {token}, "subject_token_type": {typeAccess}, "scope": {canRead}}
	r.post(t, tokenURL, f, header("DPoP", r.proof(t, key, "POST", tokenURL, ""))).want(t, "an operator's own token", 400, "invalid_request")
}

func TestRFC_A49_ProofRequired(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	r.post(t, tokenURL, b.exchange(canRead)).want(t, "token exchange", 400, "invalid_dpop_proof")
	r.post(t, tokenURL, with(url.Values{"grant_type": {grantCredentials}, "scope": {canRead}}, b.assertion(t)...)).want(t, "client_credentials", 400, "invalid_dpop_proof")
	r.post(t, tokenURL, url.Values{"grant_type": {grantJWTBearer}, "assertion": {b.token}, "scope": {canRead}}).want(t, "jwt-bearer", 400, "invalid_dpop_proof")
	r.post(t, tokenURL, r.client(t, brokertest.Operator, url.Values{"grant_type": {grantCredentials}})).want(t, "an operator", 400, "invalid_dpop_proof")
	a := r.post(t, tokenURL, r.client(t, brokertest.Server, url.Values{"grant_type": {grantCredentials}}))
	if a.status != 200 || a.text("token_type") != "Bearer" {
		t.Errorf("a resource server may go unbound: %d %s", a.status, a.body)
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	a := r.post(t, tokenURL, url.Values{"grant_type": {grantJWTBearer}, "assertion": {b.token}, "scope": {canRead}, "resource": {brokertest.Orders}}, b.prove(t))
	if a.status != 200 || a.json["issued_token_type"] != nil {
		t.Errorf("jwt-bearer: %d %s", a.status, a.body)
	}
	r.post(t, tokenURL, url.Values{"grant_type": {grantJWTBearer}, "assertion": {"x.y.z"}, "task_id": {b.task}, "scope": {canRead}}, b.prove(t)).want(t, "a bad assertion (RFC 7523 3.1)", 400, "invalid_grant")
	r.post(t, tokenURL, with(url.Values{"grant_type": {grantJWTBearer}, "assertion": {b.token}}, b.assertion(t)...), b.prove(t)).want(t, "two credentials", 400, "invalid_request")
	a = r.post(t, tokenURL, with(url.Values{"grant_type": {grantCredentials}, "scope": {canRead}}, b.assertion(t)...), b.prove(t))
	if a.status != 200 {
		t.Errorf("client_credentials: %d %s", a.status, a.body)
	}
}

// A principal gets its roles for /v1 and nothing else.
func TestPrincipalToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	ask := func(more ...string) *answer {
		f := with(r.client(t, brokertest.Operator, url.Values{"grant_type": {grantCredentials}}), more...)
		return r.post(t, tokenURL, f, header("DPoP", r.proof(t, r.env.Keys[brokertest.Operator], "POST", tokenURL, "")))
	}
	a := ask("resource", brokertest.Issuer+"/v1")
	if a.status != 200 || a.text("scope") != "operator auditor runner" || a.text("token_type") != "DPoP" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	_, c := claims(t, a.text("access_token"))
	if c["aud"] != brokertest.Issuer+"/v1" || c["sub"] != brokertest.Operator {
		t.Errorf("%v", c)
	}
	ask("resource", brokertest.Orders).want(t, "a provider's resource", 400, "invalid_target")
	ask("audience", "orders").want(t, "a provider", 400, "invalid_target")
	ask("scope", canRead).want(t, "a provider's scope", 400, "invalid_scope")
	ask("scope", "root").want(t, "no role", 400, "invalid_scope")
	ask("authorization_details", "[]").want(t, "details", 400, "invalid_authorization_details")
}
