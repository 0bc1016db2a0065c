package core_test

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// The shared LiveStore loses everything, and one replica refills it before the other has checked: a
// used proof must not be accepted by that other one.
func TestAttackReplayAtTheOtherReplica(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, brokertest.Spec())
	used := s.Request(t, "orders:eu/1:read")
	if _, err := x.Broker.Token(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	assertion := x.Assertion(t, brokertest.Runner, x.Keys[brokertest.Runner])
	if _, err := x.Broker.AuthenticateAssertion(t.Context(), assertion, "", broker.Possession{}); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(2 * time.Second)
	x.memory.lose()
	x.replica(t) // finds it empty, refills and marks it
	_, err := other.Token(t.Context(), used)
	kindOf(t, err, broker.UseNonce)
	_, err = other.AuthenticateAssertion(t.Context(), assertion, "", broker.Possession{})
	kindOf(t, err, broker.Unavailable)
	if _, err := other.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err != nil {
		t.Errorf("a new proof: %v", err)
	}
}

// requestAt returns a token request whose proof has another iat than now.
func requestAt(t *testing.T, s *brokertest.Sandbox, ahead time.Duration) broker.TokenRequest {
	t.Helper()
	r := s.Request(t, "orders:eu/1:read")
	url, now := s.Env.Issuer+"/oauth2/token", s.Env.Clock.Now()
	proof, err := dpop.NewProof(s.Key, "POST", url, "", "", now.Add(ahead))
	if err != nil {
		t.Fatal(err)
	}
	p, err := dpop.Check([]string{proof}, dpop.Request{Method: "POST", URL: url, Now: now}, dpop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Possession = broker.Possession{Proof: &p, Key: attest.Key{JKT: p.JKT, Public: p.Public}}
	return r
}

// assertionAt returns a client assertion whose iat differs from now; without iat when ahead is nil.
func assertionAt(t *testing.T, x *target, who string, ahead *time.Duration) string {
	t.Helper()
	now := x.Clock.Now()
	claims := map[string]any{"iss": who, "sub": who, "aud": x.Issuer, "jti": rand.Text(), "exp": now.Add(2 * time.Minute).Unix()}
	if ahead != nil {
		claims["iat"] = now.Add(*ahead).Unix()
	}
	a, err := jose.Sign(x.Keys[who], jose.SignHeader{Type: "JWT"}, claims)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A proof that was used before the memory began is refused with any iat: in the same second, ahead
// of it, and when its iat is the present.
//
//ebb:invariant I10 After a loss of the live store, a DPoP proof that could have been used before it needs the nonce issued since the loss
func TestAttackReplayOfAnyDate(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"the same second": 0, "30 s ahead": 30 * time.Second, "60 s ahead": 60 * time.Second, "50 s ago": -50 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			other := x.replica(t)
			s := x.Open(t, brokertest.Spec())
			used := requestAt(t, s, ahead)
			if _, err := x.Broker.Token(t.Context(), used); err != nil {
				t.Fatal(err)
			}
			x.memory.lose()
			restarted := x.replica(t)
			for after := range 30 {
				for who, b := range map[string]*core.Broker{"after a restart": restarted, "at another replica": other} {
					if _, err := b.Token(t.Context(), used); err == nil {
						t.Fatalf("%s, %d s later, a proof was used twice", who, 5*after)
					}
				}
				x.Clock.Add(5 * time.Second)
			}
		})
	}
}

// The same for client assertions.
//
//ebb:invariant I10 After a loss, a client assertion that may have been used before is refused for a time, unless the request proves the client's key
func TestAttackReplayOfAssertions(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]*time.Duration{"the same second": new(time.Duration), "9 s ahead": new(9 * time.Second), "without iat": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			used := assertionAt(t, x, brokertest.Operator, ahead)
			if _, err := x.Broker.AuthenticateAssertion(t.Context(), used, "", broker.Possession{}); err != nil {
				t.Fatal(err)
			}
			x.memory.lose()
			restarted := x.replica(t)
			for after := range 30 {
				if _, err := restarted.PrincipalToken(t.Context(), used, x.Prove(t, brokertest.NewKey(t)), ""); err == nil {
					t.Fatalf("%d s after a restart, an assertion was used twice", 5*after)
				}
				x.Clock.Add(5 * time.Second)
			}
		})
	}
}

// The LiveStore loses everything, and another replica refills it, between the check of a proof and
// its claim: the claim succeeds, and the proof is still refused.
//
//ebb:invariant I10 A DPoP proof is also refused when the live store loses data between the proof's check and its claim
func TestAttackReplayDuringALoss(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	key := x.Keys[brokertest.Operator]
	token, err := x.Broker.PrincipalToken(t.Context(), x.Assertion(t, brokertest.Operator, key), x.Prove(t, key), "")
	if err != nil {
		t.Fatal(err)
	}
	mint, call := s.Request(t, "orders:eu/1:read"), x.Prove(t, key)
	for name, use := range map[string]func() error{
		"a mint": func() error { _, err := x.Broker.Token(t.Context(), mint); return err },
		"a call": func() error {
			_, err := x.Broker.AuthenticateToken(t.Context(), token.Token.Reveal(), call)
			return err
		},
	} {
		if err := use(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var once sync.Once
		x.liveStore.on("Admit", func() error {
			once.Do(func() { x.memory.lose(); x.replica(t) })
			return nil
		})
		if err := use(); err == nil {
			t.Errorf("%s: a proof was used twice", name)
		} else {
			kindOf(t, err, broker.UseNonce)
		}
		x.Clock.Add(5 * time.Minute) // the memory is old again
		mint, call = s.Request(t, "orders:eu/1:read"), x.Prove(t, key)
	}
}
