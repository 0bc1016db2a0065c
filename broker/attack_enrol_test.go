package broker_test

import (
	"sync"
	"testing"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/brokertest"
)

// The answer to an enrolment is lost on its way. The sandbox asks again with the
// same ticket, or with another one of its runner, and the same key; nobody else
// gets anything for either.
func TestAttackLostAnswerToAnEnrolment(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	key := brokertest.NewKey(t)
	enrol := func(ticket broker.Ticket, key jose.Signer) (broker.Enrolment, error) {
		return x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, key))
	}
	first, err := enrol(*ticket, key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := enrol(*ticket, key)
	if err != nil {
		t.Fatalf("the sandbox is locked out of its task: %v", err)
	}
	if again.Task.Sandbox == nil || first.Task.Sandbox == nil || again.Task.Sandbox.JKT != first.Task.Sandbox.JKT {
		t.Errorf("it is another sandbox now: %+v, was %+v", again.Task.Sandbox, first.Task.Sandbox)
	}
	s := &brokertest.Sandbox{Env: x.Env, Key: key, Task: again.Task, TaskToken: again.Token.Reveal()}
	minted(t, s, "orders:eu/1:read")

	_, err = enrol(*ticket, brokertest.NewKey(t)) // a thief
	kindOf(t, err, broker.InvalidEvidence)
	another, err := x.Broker.NewTicket(t.Context(), x.who(brokertest.Runner), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		thief := brokertest.NewKey(t)
		wg.Go(func() {
			if _, err := enrol(*ticket, thief); err == nil {
				t.Error("the ticket of a task with a sandbox enrolled another key")
			}
		})
	}
	wg.Wait()
	x.Clock.Add(30 * time.Second)
	if _, err := enrol(another, key); err != nil {
		t.Errorf("another ticket: %v", err)
	}
	x.Clock.Add(31 * time.Second) // putting it back has not made it younger
	_, err = enrol(another, key)
	kindOf(t, err, broker.InvalidEvidence)
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), task.ID); err != nil {
		t.Fatal(err)
	}
	_, err = x.Broker.NewTicket(t.Context(), x.who(brokertest.Runner), task.ID)
	kindOf(t, err, broker.Conflict)
}
