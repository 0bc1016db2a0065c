package attesttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// Suite is the input of Run, which tests one kind. Every member is required unless its comment
// says otherwise.
type Suite struct {
	// Attestor is the attestor under test. Its clock is Clock and its leeway is zero.
	Attestor attest.Attestor
	Clock    *Clock
	// Good returns valid evidence, a new piece each time.
	Good func(t *testing.T) attest.Evidence
	// Bad maps the name of a case to a function that returns evidence which must be
	// rejected. The cases of Cases are required; a kind may add others.
	Bad map[string]func(t *testing.T) attest.Evidence
	// NotApplicable maps a case of Cases that the kind cannot have to the reason.
	NotApplicable map[string]string
	// Down returns an attestor whose dependency is unavailable, such as its key server,
	// and valid evidence. nil for a kind without dependencies: NotApplicable["down"]
	// then gives the reason.
	Down func(t *testing.T) (attest.Attestor, attest.Evidence)
	// Lures returns evidence that contains url in every place where a careless attestor
	// might connect to it. The evidence may be invalid.
	Lures func(t *testing.T, url string) []attest.Evidence
	// Consumes is true for a kind whose evidence Attest consumes: a second use fails.
	Consumes bool
	// Fresh is how long after Good the evidence is accepted, for kinds whose evidence
	// answers a challenge. The Identity may be valid for longer (NotAfter). 0 means
	// that the evidence is accepted until NotAfter.
	Fresh time.Duration
}

// Cases returns the names of the cases that Bad must have. Evidence of the case
// "expired" expired one second ago.
func Cases() []string {
	return []string{"wrong audience", "wrong issuer", "wrong key", "expired", "not yet valid"}
}

// NewKey returns a new P-256 key for Evidence.Key.
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

// Reason returns the reason in a rejection, "" for other errors and nil.
func Reason(err error) attest.Reason {
	if r, ok := errors.AsType[*attest.Rejection](err); ok {
		return r.Reason
	}
	return ""
}

// Run checks that an attestor keeps the promises of attest.Attestor.
func Run(t *testing.T, s Suite) {
	t.Helper()
	if s.Attestor == nil || s.Clock == nil || s.Good == nil || s.Lures == nil || s.Down == nil && s.NotApplicable["down"] == "" {
		t.Fatal("the suite lacks Attestor, Clock, Good, Lures, or Down with its reason in NotApplicable")
	}
	t.Run("valid evidence is accepted", s.testGood)
	t.Run("the replay id is stable", s.testReplay)
	t.Run("bad evidence is rejected", s.testBad)
	t.Run("hostile bytes are rejected", s.testHostile)
	t.Run("evidence is refused from its expiry", s.testExpiry)
	if s.Down != nil {
		t.Run("could not judge is not rejected", s.testDown)
	}
	t.Run("a cancelled context is respected", s.testCancel)
	t.Run("no claim causes a connection", s.testLures)
	t.Run("selectors match exactly", s.testSelectors)
	t.Run("sixteen concurrent calls", s.testConcurrent)
}
