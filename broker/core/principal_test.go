package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// A90 to A92 and hostile cases H13 to H16, H23: client assertions.
func TestClientAssertionsAreStrict(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	key := e.Keys[brokertest.Runner]
	now := e.Clock.Now()
	base := func() map[string]any {
		return map[string]any{
			"iss": brokertest.Runner, "sub": brokertest.Runner, "aud": e.Issuer, "jti": newJTI(),
			"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		}
	}
	with := func(k string, v any) map[string]any {
		c := base()
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
		return c
	}
	for name, c := range map[string]map[string]any{
		"token endpoint as audience": with("aud", e.Issuer+"/oauth2/token"),
		"two audiences":              with("aud", []string{e.Issuer, "https://other.test"}),
		"audience with slash":        with("aud", e.Issuer+"/"),
		"no audience":                with("aud", nil),
		"no expiry":                  with("exp", nil),
		"expired":                    with("exp", now.Add(-time.Minute).Unix()),
		"far expiry":                 with("exp", now.Add(time.Hour).Unix()),
		"expiry as string":           with("exp", "9999999999"),
		"future iat":                 with("iat", now.Add(10*time.Minute).Unix()),
		"no jti":                     with("jti", nil),
		"iss of another":             with("iss", brokertest.Runner2),
		"sub of another":             with("sub", brokertest.Operator),
		"unknown client":             with("sub", "mallory"),
		"control character":          with("sub", "ci\x00"),
	} {
		a, err := jose.Sign(key, jose.SignHeader{Type: "JWT"}, c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Broker.AuthenticateAssertion(t.Context(), a, "", broker.Possession{}); err == nil || broker.AsError(err).Kind != broker.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, typ := range []string{"at+jwt", "dpop+jwt", "ebb-task+jwt"} { // H16: one kind of token does not replace another
		a, _ := jose.Sign(key, jose.SignHeader{Type: typ}, base())
		if _, err := e.Broker.AuthenticateAssertion(t.Context(), a, "", broker.Possession{}); err == nil {
			t.Errorf("typ %s passed as a client assertion", typ)
		}
	}
	forged := e.Assertion(t, brokertest.Operator, key) // signed by the runner
	if _, err := e.Broker.AuthenticateAssertion(t.Context(), forged, "", broker.Possession{}); err == nil {
		t.Error("an assertion with another principal's key passed")
	}
	good := e.Assertion(t, brokertest.Runner, key)
	_, err := e.Broker.AuthenticateAssertion(t.Context(), good, brokertest.Operator, broker.Possession{})
	kindOf(t, err, broker.Unauthenticated) // client_id differs
	p, err := e.Broker.AuthenticateAssertion(t.Context(), good, brokertest.Runner, broker.Possession{})
	if err != nil || p.ID != brokertest.Runner {
		t.Fatalf("%+v %v", p, err)
	}
	_, err = e.Broker.AuthenticateAssertion(t.Context(), good, "", broker.Possession{})
	if k := kindOf(t, err, broker.Unauthenticated); !strings.Contains(k.Public, "used before") {
		t.Errorf("replay: %s", k.Public)
	}
}

func newJTI() string { return time.Now().Format("150405.000000000") }

// proofFor makes a proof of possession for a call of the API with a token.
func proofFor(t *testing.T, e *brokertest.Env, key jose.Signer, token string) broker.Possession {
	t.Helper()
	url := e.Issuer + "/v1/tasks"
	proof, err := dpop.NewProof(key, "GET", url, token, "", e.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	p, err := dpop.Check([]string{proof}, dpop.Request{Method: "GET", URL: url, AccessToken: token, Now: e.Clock.Now()}, dpop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return broker.Possession{Proof: &p}
}

func TestTokensForTheAPI(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	key := e.Keys[brokertest.Operator]
	_, err := e.Broker.PrincipalToken(t.Context(), e.Assertion(t, brokertest.Operator, key), broker.Possession{}, "")
	kindOf(t, err, broker.InvalidProof) // operators' tokens are bound
	tok, err := e.Broker.PrincipalToken(t.Context(), e.Assertion(t, brokertest.Operator, key), e.Prove(t, key), "")
	if err != nil || tok.Type != "DPoP" || tok.API != "operator auditor runner" {
		t.Fatalf("%+v %v", tok, err)
	}
	_, err = e.Broker.PrincipalToken(t.Context(), e.Assertion(t, brokertest.Operator, key), e.Prove(t, key), "", broker.RoleApprover)
	kindOf(t, err, broker.InvalidScope) // a role it does not have
	less, err := e.Broker.PrincipalToken(t.Context(), e.Assertion(t, brokertest.Operator, key), e.Prove(t, key), "", broker.RoleAuditor)
	if err != nil || less.API != "auditor" {
		t.Fatalf("%+v %v", less, err)
	}
	auditor, err := e.Broker.AuthenticateToken(t.Context(), less.Token.Reveal(), proofFor(t, e, key, less.Token.Reveal()))
	if err != nil || auditor.Has(broker.RoleOperator, broker.RoleRunner) || !auditor.Has(broker.RoleAuditor) {
		t.Fatalf("a narrowed token has %v (%v)", auditor.Roles, err)
	}
	token := tok.Token.Reveal()
	who, err := e.Broker.AuthenticateToken(t.Context(), token, proofFor(t, e, key, token))
	if err != nil || who.ID != brokertest.Operator {
		t.Fatalf("%+v %v", who, err)
	}
	_, err = e.Broker.AuthenticateToken(t.Context(), token, broker.Possession{})
	kindOf(t, err, broker.Unauthenticated) // no proof
	_, err = e.Broker.AuthenticateToken(t.Context(), token, proofFor(t, e, e.Keys[brokertest.Runner], token))
	kindOf(t, err, broker.Unauthenticated) // another key
	p := proofFor(t, e, key, token)
	if _, err := e.Broker.AuthenticateToken(t.Context(), token, p); err != nil {
		t.Fatal(err)
	}
	_, err = e.Broker.AuthenticateToken(t.Context(), token, p)
	kindOf(t, err, broker.InvalidProof) // replay
	e.Clock.Add(11 * time.Minute)
	_, err = e.Broker.AuthenticateToken(t.Context(), token, proofFor(t, e, key, token))
	kindOf(t, err, broker.Unauthenticated) // expired

	// A sandbox's token gives no access here, and the API's token none there.
	s := e.Open(t, brokertest.Spec())
	sandboxToken, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Broker.AuthenticateToken(t.Context(), sandboxToken.Token.Reveal(), proofFor(t, e, s.Key, sandboxToken.Token.Reveal()))
	kindOf(t, err, broker.Unauthenticated)
	fresh, err := e.Broker.PrincipalToken(t.Context(), e.Assertion(t, brokertest.Operator, key), e.Prove(t, key), "")
	if err != nil {
		t.Fatal(err)
	}
	if e.Active(t, fresh.Token.Reveal()) {
		t.Error("a token for the API introspects as a credential")
	}
	r := s.Request(t, "orders:eu/1:read")
	r.Subject = broker.Subject{AccessToken: fresh.Token.Reveal(), Fault: broker.Invalid}
	_, err = e.Broker.Token(t.Context(), r)
	kindOf(t, err, broker.Invalid) // H48: no change of the kind of token
}

func TestResourceServersSeeTheirOwnAudienceOnly(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	orders, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	mail, err := s.Ask(t, "mail:inbox:read")
	if err != nil {
		t.Fatal(err)
	}
	if mail.ExpiresIn > 300 {
		t.Errorf("a mail token lives %d s, its provider allows 300", mail.ExpiresIn)
	}
	who := e.Principals[brokertest.Server]
	if i, err := e.Broker.Introspect(t.Context(), who, orders.Token.Reveal()); err != nil || !i.Active {
		t.Errorf("own audience: %+v %v", i, err)
	}
	for name, token := range map[string]string{
		"another audience": mail.Token.Reveal(), "garbage": "x", "empty": "", "task token": s.TaskToken,
		"truncated": orders.Token.Reveal()[:50], "bit flip": flip(orders.Token.Reveal()),
	} {
		if i, err := e.Broker.Introspect(t.Context(), who, token); err != nil || i.Active || i.Claims != nil || i.Type != "" {
			t.Errorf("%s: %+v %v", name, i, err)
		}
	}
	_, err = e.Broker.Introspect(t.Context(), e.Principals[brokertest.Approver], orders.Token.Reveal())
	kindOf(t, err, broker.Forbidden)
	if err := e.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: &who}, orders.Token.Reveal()); broker.AsError(err).Kind != broker.Forbidden {
		t.Errorf("a resource server revoked: %v", err)
	}
}

func flip(s string) string {
	b := []byte(s)
	i := strings.LastIndexByte(s, '.') + 5
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

// RFC 7009: own tokens are revoked, others stay, and the responses do not differ.
func TestSandboxesRevokeTheirOwnTokensOnly(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	a, b := e.Open(t, brokertest.Spec()), e.Open(t, brokertest.Spec())
	ta, err := a.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	revoke := func(s *brokertest.Sandbox, token string) error {
		r := s.Request(t, "orders:eu/1:read")
		return e.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, token)
	}
	for _, token := range []string{ta.Token.Reveal(), "garbage", "", string(e.Broker.JWKS())} {
		if err := revoke(b, token); err != nil {
			t.Fatal(err)
		}
	}
	if !e.Active(t, ta.Token.Reveal()) {
		t.Fatal("a sandbox revoked another's token")
	}
	p := pending(t, a, "orders:eu/1:write")
	if err := revoke(b, p.DeferralCode.Reveal()); err != nil {
		t.Fatal(err)
	}
	if r, _ := e.Broker.Request(t.Context(), e.Principals[brokertest.Auditor], p.RequestID); r.State != broker.RequestPending {
		t.Error("a sandbox withdrew another's request")
	}
	for _, token := range []string{ta.Token.Reveal(), ta.Token.Reveal(), p.DeferralCode.Reveal()} {
		if err := revoke(a, token); err != nil {
			t.Fatal(err)
		}
	}
	if e.Active(t, ta.Token.Reveal()) {
		t.Error("a revoked token is active")
	}
	if r, _ := e.Broker.Request(t.Context(), e.Principals[brokertest.Auditor], p.RequestID); r.State != broker.RequestWithdrawn {
		t.Error("a withdrawn request waits on")
	}
}

// An enrolled sandbox is an OAuth client with private_key_jwt.
func TestSandboxAsClient(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s, other := e.Open(t, brokertest.Spec()), e.Open(t, brokertest.Spec())
	ask := func(client string, key, proof jose.Signer) error {
		r := s.Request(t, "orders:eu/1:read")
		r.Possession = e.Prove(t, proof)
		r.Subject = broker.Subject{Assertion: e.Assertion(t, client, key), Fault: broker.Unauthenticated}
		_, err := e.Broker.Token(t.Context(), r)
		return err
	}
	if err := ask(s.Task.Sandbox.ID, s.Key, s.Key); err != nil {
		t.Fatal(err)
	}
	kindOf(t, ask(s.Task.Sandbox.ID, other.Key, s.Key), broker.Unauthenticated)          // signed by another key
	kindOf(t, ask(s.Task.Sandbox.ID, s.Key, other.Key), broker.InvalidProof)             // proved by another key
	kindOf(t, ask("sbx_"+strings.Repeat("0", 32), s.Key, s.Key), broker.Unauthenticated) // unknown
	kindOf(t, ask("sbx_'; DROP TABLE tasks", s.Key, s.Key), broker.Unauthenticated)
	if _, err := e.Broker.CompleteTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	kindOf(t, ask(s.Task.Sandbox.ID, s.Key, s.Key), broker.Unauthenticated)
}
