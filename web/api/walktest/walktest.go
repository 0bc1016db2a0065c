package walktest

import (
	"testing"
	"time"

	"ebb/attest"
)

// Issuer is the ebb's name.
const Issuer = "https://ebb.example"

// Kind is a kind of evidence that answers a challenge.
type Kind struct {
	// Name of the instance.
	Name string
	// Open makes the attestor of the ebb called Issuer.
	Open func(t testing.TB, nonces *attest.Nonces, now func() time.Time) attest.Attestor
	// Start starts one more sandbox, whose selectors no other has.
	Start func(t testing.TB) Sandbox
}

// Sandbox is one sandbox: what its runner knows of it, and what it can show.
type Sandbox struct {
	// Selectors are what a runner registers for it.
	Selectors map[string]string
	// Show is what it shows to get a challenge, "" = nothing.
	Show string
	// Answer is the evidence of the key with a thumbprint for a challenge.
	Answer func(t testing.TB, jkt string, c attest.Challenge) string
}

// Run walks the kind's evidence through a whole ebb.
func Run(t *testing.T, kind Kind) {
	t.Helper()
	e := start(t, kind)
	a, b := kind.Start(t), kind.Start(t)
	task := e.open(t, a)
	right := e.caller(t, a)

	// Others come first: none of them may get the task, or keep it from its sandbox.
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
	// For the key that it is bound to, evidence is good until the challenge is old.
	if again := right.enrols(t, task, heard); again.ClientID != who.ClientID {
		t.Errorf("the same evidence makes two sandboxes: %s and %s", who.ClientID, again.ClientID)
	}
	thief.refused(t, "evidence that was used", task, heard)
	thief.refused(t, "a second key of the sandbox", task, thief.evidence(t, task))
	other.refused(t, "a second sandbox", task, other.evidence(t, task))
	// The other one has lost nothing.
	its := e.open(t, b)
	other.enrols(t, its, other.evidence(t, its))

	late := e.caller(t, a)
	third := e.open(t, a)
	slow := late.evidence(t, third)
	e.env.Clock.Add(attest.NonceLife)
	late.refused(t, "an answer after a minute", third, slow)
	late.enrols(t, third, late.evidence(t, third))
}
