package attesttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
)

// Suite is how Run drives one kind. Every member is required unless it says so.
type Suite struct {
	// Attestor under test; its clock is Clock and its leeway is zero.
	Attestor attest.Attestor
	Clock    *Clock
	// Good makes valid evidence, a new piece each time.
	Good func(t *testing.T) attest.Evidence
	// Bad makes evidence that must be rejected, by case. The cases of Cases are
	// required, others welcome.
	Bad map[string]func(t *testing.T) attest.Evidence
	// NotApplicable says for a case of Cases why the kind has no such thing.
	NotApplicable map[string]string
	// Down makes an attestor that lacks what it needs to judge, and evidence that
	// is otherwise valid. nil for a kind that needs nothing but the evidence:
	// NotApplicable["down"] says so.
	Down func(t *testing.T) (attest.Attestor, attest.Evidence)
	// Lures makes evidence that mentions url wherever a careless attestor might
	// follow it. It may be valid or not.
	Lures func(t *testing.T, url string) []attest.Evidence
	// Consumes is true for a kind whose evidence is spent by Attest.
	Consumes bool
	// Fresh is for a kind whose evidence answers a challenge: how long after Good it
	// is accepted. What it says may be good for longer (NotAfter). 0 = until NotAfter.
	Fresh time.Duration
}

// Cases that Bad must cover. "expired" means by one second.
func Cases() []string {
	return []string{"wrong audience", "wrong issuer", "wrong key", "expired", "not yet valid"}
}

// NewKey makes a proved P-256 key, for Evidence.Key.
func NewKey(t testing.TB) attest.Key {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	jkt, err := jose.Thumbprint(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return attest.Key{JKT: jkt, Public: &k.PublicKey}
}

// Reason is why evidence was rejected, "" when it was not.
func Reason(err error) attest.Reason {
	if r, ok := errors.AsType[*attest.Rejection](err); ok {
		return r.Reason
	}
	return ""
}

// Run holds an attestor to what attest.Attestor promises.
func Run(t *testing.T, s Suite) {
	t.Helper()
	if s.Attestor == nil || s.Clock == nil || s.Good == nil || s.Lures == nil || s.Down == nil && s.NotApplicable["down"] == "" {
		t.Fatal("the suite lacks a member")
	}
	t.Run("valid evidence is accepted", s.testGood)
	t.Run("the replay id is stable", s.testReplay)
	t.Run("bad evidence is rejected", s.testBad)
	t.Run("hostile bytes are rejected", s.testHostile)
	t.Run("evidence ends when it says", s.testExpiry)
	if s.Down != nil {
		t.Run("could not judge is not rejected", s.testDown)
	}
	t.Run("a cancelled context is respected", s.testCancel)
	t.Run("no claim causes a connection", s.testLures)
	t.Run("selectors are exact", s.testSelectors)
	t.Run("sixteen at once", s.testConcurrent)
}
