package walktest

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
)

// Issuer is the issuer of the ebb under test.
const Issuer = "https://ebb.example"

// Kind is a kind of evidence that answers a challenge.
type Kind struct {
	// Name is the name of the attestor instance.
	Name string
	// Open creates the attestor for the ebb with issuer Issuer.
	Open func(t testing.TB, nonces *attest.Nonces, now func() time.Time) attest.Attestor
	// Start starts a sandbox with selectors that no other sandbox has.
	Start func(t testing.TB) Sandbox
}

// Sandbox is one sandbox: the selectors that its runner registers, and its
// evidence.
type Sandbox struct {
	// Selectors are the selectors that the runner registers.
	Selectors map[string]string
	// Show is the document that the sandbox sends to get a challenge; "" =
	// none.
	Show string
	// Answer returns evidence that answers a challenge, for the key with
	// thumbprint jkt.
	Answer func(t testing.TB, jkt string, c attest.Challenge) string
}

// Run runs the test with evidence of the given kind.
func Run(t *testing.T, kind Kind) {
	t.Helper()
	e := start(t, kind)
	a, b := kind.Start(t), kind.Start(t)
	task := e.open(t, a)
	right := e.caller(t, a)

	// Attackers try first: none may get the task or keep its sandbox from
	// getting it.
	thief := e.caller(t, a)
	heard := right.evidence(t, task)
	thief.refused(t, "the challenge of another key", task, heard)
	thief.refused(t, "nothing", task, "{}")
	e.caller(t, b).refused(t, "the evidence and the key of nobody", task, heard)
	other := e.caller(t, b)
	other.refused(t, "another sandbox's own evidence", task, other.evidence(t, task))
	right.refused(t, "for another sandbox's task", e.open(t, b), heard)
	stranger := start(t, kind)
	right.refused(t, "a challenge of another ebb", task, stranger.known(t, a, right.key).evidence(t, stranger.open(t, a)))

	who := right.enrols(t, task, heard)
	// Evidence can be used again with its own key until the challenge expires.
	if again := right.enrols(t, task, heard); again.ClientID != who.ClientID {
		t.Errorf("the same evidence makes two sandboxes: %s and %s", who.ClientID, again.ClientID)
	}
	thief.refused(t, "evidence that was used", task, heard)
	thief.refused(t, "a second key of the sandbox", task, thief.evidence(t, task))
	other.refused(t, "a second sandbox", task, other.evidence(t, task))
	// The failed attempts have not affected the other sandbox.
	its := e.open(t, b)
	other.enrols(t, its, other.evidence(t, its))

	late := e.caller(t, a)
	third := e.open(t, a)
	slow := late.evidence(t, third)
	e.env.Clock.Add(attest.NonceLife)
	late.refused(t, "an answer after a minute", third, slow)
	late.enrols(t, third, late.evidence(t, third))
}
