package core_test

import (
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/oidc"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// A token that was accepted once renews nothing when it is shown again, nor does a token that was
// kept for later: each counts from its issue.
func TestAttackStaticTokenAttestsAgain(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := start
	signer := brokertest.NewKey(t)
	jwk := attesttest.PublicJWK(t, signer)
	jwk["kid"], jwk["alg"] = "k1", "ES256"
	set, err := json.Marshal(map[string]any{"keys": []any{jwk}})
	if err != nil {
		t.Fatal(err)
	}
	idp, err := oidc.New(oidc.Config{Name: "idp", Issuer: "https://idp.test", Audience: brokertest.Issuer, JWKS: set, Algs: []jose.Alg{jose.ES256}, Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	e := brokertest.New(t, brokertest.Config{Start: start, Attestors: map[string]attest.Attestor{"idp": idp},
		Liveness: map[string]broker.Liveness{"idp": {Reattest: 10 * time.Minute}}})
	token := func(times map[string]any) string {
		c := map[string]any{"iss": "https://idp.test", "aud": brokertest.Issuer, "sub": "box", "jti": rand.Text(), "exp": start.Add(5 * time.Hour).Unix()}
		for name, at := range times {
			c[name] = at
		}
		return attesttest.Forge(t, signer, map[string]any{"alg": "ES256", "kid": "k1", "typ": "JWT"}, c)
	}
	at := func(d time.Duration) map[string]any { return map[string]any{"iat": start.Add(d).Unix()} }
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect, spec.TTL = false, broker.Expect{Attestor: "idp", Selectors: map[string]string{"sub": "box"}}, 6*3600
	task, _, err := e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], spec)
	if err != nil {
		t.Fatal(err)
	}
	key := brokertest.NewKey(t)
	later := func(d time.Duration) { clock = clock.Add(d); e.Clock.Add(d) }
	want := func(what string, doc string, until time.Duration) {
		t.Helper()
		en, err := e.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Attestor: "idp", Document: []byte(doc)}, e.Prove(t, key))
		if until == 0 {
			kindOf(t, err, broker.InvalidEvidence)
		} else if err != nil || !en.ExpiresAt.Equal(start.Add(until)) {
			t.Errorf("%s: until %v, %v; want %v", what, en.ExpiresAt.Sub(start), err, until)
		}
	}
	static, kept := token(at(0)), token(at(5*time.Minute))
	want("first", static, 10*time.Minute)
	later(5 * time.Minute)
	want("the same again", static, 10*time.Minute)
	later(5 * time.Minute)
	want("the same when its time is over", static, 0)
	want("one that was kept", kept, 15*time.Minute)
	later(5 * time.Minute)
	want("the kept one when its time is over", kept, 0)
	want("no iat", token(nil), 0)
	want("no iat and an old nbf", token(map[string]any{"nbf": start.Unix()}), 0)
	want("no iat and a new nbf", token(map[string]any{"nbf": start.Add(15 * time.Minute).Unix()}), 25*time.Minute)
	want("a new one", token(at(14*time.Minute)), 24*time.Minute)
	want("one of the future", token(at(16*time.Minute)), 0)
}
