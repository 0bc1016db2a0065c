package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

const backchannelURL = "/oauth2/bc-authorize"

// backchannel starts CIBA as the sandbox's client does: private_key_jwt without
// a DPoP proof.
func (b *box) backchannel(t testing.TB, more ...string) *answer {
	t.Helper()
	return b.r.post(t, backchannelURL, b.backchannelForm(t, more...))
}

func (b *box) backchannelForm(t testing.TB, more ...string) url.Values {
	t.Helper()
	return with(with(url.Values{"scope": {"openid " + mustAsk}, "login_hint": {"ann"}, "binding_message": {"AMBER-42"}}, b.assertion(t)...), more...)
}

// redeem polls for a backchannel request with a client assertion and, by mods, a proof.
func (b *box) redeem(t testing.TB, id string, mods ...func(*http.Request)) *answer {
	t.Helper()
	return b.r.post(t, tokenURL, with(url.Values{"grant_type": {grantCIBA}, "auth_req_id": {id}}, b.assertion(t)...), mods...)
}

// A client assertion alone starts a request, and so does one with a proof of
// the same key. Both create the same request, whose token is bound to the key
// of the sandbox.
func TestCIBA(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	a := b.backchannel(t)
	if a.status != 200 || a.number("expires_in") <= 0 || a.number("interval") <= 0 || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	id := a.text("auth_req_id")
	if p := r.pendingRequest(t); p["scope"] != mustAsk || p["reason"] != "AMBER-42" {
		t.Errorf("the approver sees %v", p)
	}
	if proved := r.post(t, backchannelURL, b.backchannelForm(t), b.prove(t)); proved.text("auth_req_id") != id {
		t.Errorf("with a proof: %d %s", proved.status, proved.body)
	}
	if deferred := b.pend(t, mustAsk); deferred.text("deferral_code") != id {
		t.Errorf("at the token endpoint: %s", deferred.body)
	}
	b.redeem(t, id, b.prove(t)).want(t, "waiting", 400, "authorization_pending")
	b.redeem(t, id, b.prove(t)).want(t, "too fast", 400, "slow_down")
	r.approve(t, nil)
	r.env.Clock.Add(minute)
	got := b.redeem(t, id, b.prove(t))
	if got.status != 200 || got.text("scope") != mustAsk || got.text("token_type") != "DPoP" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if _, c := claims(t, got.text("access_token")); detailsText(t, c["cnf"]) != `{"jkt":"`+b.jkt+`"}` {
		t.Errorf("cnf %v, want the key of the sandbox", c["cnf"])
	}
	r.env.Clock.Add(minute)
	b.redeem(t, id, b.prove(t)).want(t, "twice", 400, "invalid_grant")
}

// The approved token is issued only to the key that signed the assertion.
func TestCIBAPollNeedsTheKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{mtls: true})
	b, thief := r.sandbox(t), r.sandbox(t)
	id := b.backchannel(t).text("auth_req_id")
	r.approve(t, nil)
	r.env.Clock.Add(minute)
	b.redeem(t, id).want(t, "an assertion alone", 400, "invalid_grant")
	b.redeem(t, id, thief.prove(t)).want(t, "an assertion, and a proof of another key", 400, "invalid_grant")
	b.redeem(t, id, overTLS(clientCert(t, b.key))).want(t, "the key in a certificate", 400, "invalid_grant")
	thief.redeem(t, id, thief.prove(t)).want(t, "another sandbox", 400, "invalid_grant")
	thief.redeem(t, id, b.prove(t)).want(t, "the assertion of another sandbox", 400, "invalid_dpop_proof")
	r.env.Clock.Add(minute)
	if a := b.redeem(t, id, b.prove(t)); a.status != 200 {
		t.Errorf("its owner: %d %s", a.status, a.body)
	}
}

// A33, A34, A40, A91, A92, H26, H27: without the key of the sandbox a stranger
// cannot create an approval request. A proof or a certificate sent with a valid
// assertion must be valid too, and of the same key.
//
//ebb:invariant I6 A client assertion alone can only start an approval request, bound to its signing key; an accompanying DPoP proof or certificate is verified too
func TestCIBAStrangers(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{mtls: true})
	b, thief := r.sandbox(t), r.sandbox(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	proof := func(path string) string { return r.proof(t, b.key, http.MethodPost, path, "") }
	used := proof(backchannelURL)
	r.post(t, backchannelURL, b.backchannelForm(t, "scope", "openid"), header("DPoP", used)).want(t, "a proof is used", 400, "invalid_scope")
	stolen := b.assertion(t)
	r.post(t, "/oauth2/revoke", with(url.Values{"token": {"x"}}, stolen...)).emptyOK(t, "an assertion is used elsewhere")
	forged := func(claims map[string]any) []string {
		now := r.env.Clock.Now().Unix()
		c := map[string]any{"iss": b.client, "sub": b.client, "aud": brokertest.Issuer, "jti": rand.Text(), "iat": now, "exp": now + 60}
		for k, v := range claims {
			c[k] = v
		}
		return []string{"client_assertion", attesttest.Forge(t, thief.key, map[string]any{"alg": "ES256", "typ": "JWT"}, c)}
	}
	proofs := func(values ...string) func(*http.Request) {
		return func(req *http.Request) { req.Header["Dpop"] = values }
	}
	const client, dpop = "invalid_client", "invalid_dpop_proof"
	for name, c := range map[string]struct {
		form []string
		mod  func(*http.Request)
		code string
	}{
		"no assertion":                        {[]string{"client_assertion", "-", "client_assertion_type", "-"}, nil, client},
		"no assertion, the key proved":        {[]string{"client_assertion", "-", "client_assertion_type", "-"}, b.prove(t), client},
		"A91 used at another endpoint":        {stolen, nil, client},
		"signed by another sandbox":           {forged(nil), nil, client},
		"the key of another sandbox, proved":  {forged(nil), thief.prove(t), client},
		"A92 for another sandbox":             {forged(map[string]any{"iss": thief.client}), nil, client},
		"client_id of another sandbox":        {append(thief.assertion(t), "client_id", b.client), nil, client},
		"task_id of another sandbox":          {append(thief.assertion(t), "task_id", b.task), nil, client},
		"a proof of another key":              {nil, thief.prove(t), dpop},
		"a proof of another sandbox's client": {thief.assertion(t), b.prove(t), dpop},
		"H27 a proof that was used":           {nil, proofs(used), dpop},
		"A40 a proof for another endpoint":    {nil, proofs(proof(tokenURL)), dpop},
		"A34 an empty proof":                  {nil, proofs(""), dpop},
		"A34 a proof that is none":            {nil, proofs("x.y.z"), dpop},
		"A33 H26 two proofs":                  {nil, proofs(proof(backchannelURL), proof(backchannelURL)), dpop},
		"a certificate of another key":        {nil, overTLS(clientCert(t, thief.key)), dpop},
		"a certificate of P-384, which no token is bound to by its thumbprint": {nil, overTLS(clientCert(t, p384)), dpop},
		"a principal": {[]string{"client_assertion", r.env.Assertion(t, brokertest.Operator, r.env.Keys[brokertest.Operator])}, nil, dpop},
	} {
		f, mods := b.backchannelForm(t, c.form...), []func(*http.Request){}
		if c.mod != nil {
			mods = append(mods, c.mod)
		}
		status := 400
		if c.code == client {
			status = 401
		}
		r.post(t, backchannelURL, f, mods...).want(t, name, status, c.code)
	}
	twice := b.backchannelForm(t, "scope", "openid")
	r.post(t, backchannelURL, twice).want(t, "an assertion is used", 400, "invalid_scope")
	r.post(t, backchannelURL, with(twice, "scope", mustAsk)).want(t, "A91 used here", 401, "invalid_client")
	r.nobodyIsAsked(t)
	done := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+b.task+"/complete", nil)
	if done.status != 200 {
		t.Fatalf("%d %s", done.status, done.body)
	}
	b.backchannel(t).want(t, "H59 after the end of the task", 401, "invalid_client")
}

// nobodyIsAsked fails if a request waits for an approval.
func (r *rig) nobodyIsAsked(t testing.TB) {
	t.Helper()
	a := r.v1(t, brokertest.Approver, http.MethodGet, "/v1/requests", nil)
	if items, _ := a.json["items"].([]any); a.status != 200 || len(items) != 0 {
		t.Errorf("people are asked: %d %s", a.status, a.body)
	}
}

// Evidence of a workload proves no key at the backchannel endpoint. An
// assertion alone proves none at endpoints that return a credential or names of
// credentials.
//
//ebb:invariant I6 A client assertion alone can only start an approval request, bound to its signing key; an accompanying DPoP proof or certificate is verified too
func TestAssertionAloneElsewhere(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	p := newIDP(t, func() time.Time { return start })
	r := newRig(t, options{broker: brokertest.Config{Start: start, Attestors: map[string]attest.Attestor{"idp": p.att}}})
	b := r.sandbox(t)
	s := spec()
	s.Ticket, s.Expect = false, broker.Expect{Attestor: "idp", Selectors: map[string]string{"repo": "acme/web"}}
	task := r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks", s).json["task"].(map[string]any)["id"].(string)
	r.post(t, backchannelURL, b.backchannelForm(t, "client_assertion", p.token(t, nil), "task_id", task)).want(t, "evidence of a workload", 400, "invalid_dpop_proof")
	for path, f := range map[string]url.Values{
		tokenURL:              {"grant_type": {grantCredentials}, "scope": {canRead}},
		"/oauth2/delegate":    {"scope": {canRead}},
		"/oauth2/credentials": {},
	} {
		r.post(t, path, with(f, b.assertion(t)...)).want(t, path, 400, "invalid_dpop_proof")
	}
	r.post(t, tokenURL, with(url.Values{"grant_type": {grantCredentials}, "scope": {mustAsk}, "completion_mode": {"deferred"}}, b.assertion(t)...)).want(t, "a deferred request", 400, "invalid_dpop_proof")
	r.nobodyIsAsked(t)
}

func TestCIBARefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	b.backchannel(t, "login_hint", "-").want(t, "no hint", 400, "invalid_request")
	b.backchannel(t, "id_token_hint", "x").want(t, "two hints", 400, "invalid_request")
	b.backchannel(t, "scope", "openid").want(t, "no scope", 400, "invalid_scope")
}

// A request that needs no approval is refused and mints nothing: the response
// has no member for a credential.
//
//ebb:invariant I6 A backchannel authentication request never mints a credential, even if no approval is needed
func TestBackchannelMintsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	refused := func(name, scope string) {
		t.Helper()
		for _, mods := range [][]func(*http.Request){nil, {b.prove(t)}} {
			r.post(t, backchannelURL, b.backchannelForm(t, "scope", "openid "+scope), mods...).want(t, name, 400, "invalid_request")
		}
	}
	leases := func() int {
		t.Helper()
		items, _ := r.v1(t, brokertest.Auditor, http.MethodGet, "/v1/leases?task_id="+b.task, nil).json["items"].([]any)
		return len(items)
	}
	refused("allowed by policy", canRead)
	if n := leases(); n != 0 {
		t.Errorf("%d credentials were issued, and nobody got them", n)
	}
	id := b.backchannel(t).text("auth_req_id")
	r.approve(t, nil)
	r.env.Clock.Add(minute)
	if a := b.redeem(t, id, b.prove(t)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	refused("allowed by an approval", mustAsk)
	if n := leases(); n != 1 {
		t.Errorf("%d credentials were issued, want the one that was polled", n)
	}
}
