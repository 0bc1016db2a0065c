package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// The response to an enrolment is lost. The sandbox enrols again with the same key, and the same
// ticket or another one of its runner. Any other key is refused for both tickets.
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
	another, err := x.Broker.NewTicket(t.Context(), x.who(brokertest.Runner), task.ID, 0)
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
	x.Clock.Add(31 * time.Second) // restoring the ticket has not extended its lifetime
	_, err = enrol(another, key)
	kindOf(t, err, broker.InvalidEvidence)
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), task.ID, broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	_, err = x.Broker.NewTicket(t.Context(), x.who(brokertest.Runner), task.ID, 0)
	kindOf(t, err, broker.Conflict)
}

// A ticket is used, and then a store fails: only the same sandbox can use it again.
//
//ebb:invariant I10
func TestAttackTicketLostToABlip(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]string{"before the sandbox is bound": audit.SandboxEnrolled, "after it": audit.SandboxToken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
			if err != nil {
				t.Fatal(err)
			}
			key := brokertest.NewKey(t)
			enrol := func(p broker.Possession) error {
				_, err := x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, p)
				return err
			}
			x.store.on(op, once(errDown))
			kindOf(t, enrol(x.Prove(t, key)), broker.Unavailable)
			if err := enrol(x.Prove(t, key)); err != nil {
				t.Fatalf("the sandbox is locked out of its task: %v", err)
			}
			kindOf(t, enrol(x.Prove(t, brokertest.NewKey(t))), broker.InvalidEvidence)
		})
	}
}

// A restored ticket keeps its expiry.
func TestAttackTicketDoesNotLiveOn(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(40 * time.Second)
	x.store.on(audit.SandboxEnrolled, once(errDown))
	for range 2 {
		_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, brokertest.NewKey(t)))
		x.Clock.Add(40 * time.Second)
	}
	kindOf(t, err, broker.InvalidEvidence)
}

// The LiveStore loses all tickets. An unused ticket still enrols one sandbox, a used one serves
// only its sandbox's key, and each keeps its expiry.
//
//ebb:invariant I10 After a loss of the live store, an unused ticket enrols exactly one sandbox, and a used ticket works only with its sandbox's key
func TestAttackTicketsAfterALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *target) *core.Broker{
		"restart": func(t *testing.T, x *target) *core.Broker { x.memory.lose(); return x.replica(t) },
		"flush": func(t *testing.T, x *target) *core.Broker {
			x.memory.lose()
			x.Broker.Watch(t.Context())
			return x.Broker
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			open := func() (broker.Task, broker.Ticket) {
				task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
				if err != nil {
					t.Fatal(err)
				}
				return task, *ticket
			}
			enrol := func(b *core.Broker, task broker.Task, ticket broker.Ticket, key jose.Signer) error {
				_, err := b.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, key))
				return err
			}
			task, unused := open()
			taken, used := open()
			done, over := open()
			late, old := open()
			first := brokertest.NewKey(t)
			if err := enrol(x.Broker, taken, used, first); err != nil {
				t.Fatal(err)
			}
			if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), done.ID, broker.DefaultWait); err != nil {
				t.Fatal(err)
			}
			x.Clock.Add(30 * time.Second)
			b := lose(t, x)
			var won atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				key := brokertest.NewKey(t)
				wg.Go(func() {
					if enrol(b, task, unused, key) == nil {
						won.Add(1)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Errorf("an unused ticket enrolled %d of 8 keys, want 1", won.Load())
			}
			if err := enrol(b, taken, used, first); err != nil {
				t.Errorf("the sandbox that has no answer yet is locked out: %v", err)
			}
			kindOf(t, enrol(b, taken, used, brokertest.NewKey(t)), broker.InvalidEvidence)
			kindOf(t, enrol(b, done, over, brokertest.NewKey(t)), broker.InvalidEvidence)
			x.Clock.Add(31 * time.Second)
			kindOf(t, enrol(b, late, old, brokertest.NewKey(t)), broker.InvalidEvidence)
		})
	}
}

// A failed check is not a denial: while the database is down, evidence does not count as bad.
func TestAttackOutageCalledBadEvidence(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "sso", Selectors: map[string]string{"sub": "workload"}}
	task, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
	if err != nil {
		t.Fatal(err)
	}
	x.store.on("Tasks", func() error { return errDown })
	_, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(issuer.Token(attesttest.Claims{"aud": brokertest.Issuer}))}, x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Unavailable)
}

// The caller disconnects between the two halves of a pause or a taint.
func TestAttackHangUpHalfway(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *target, string) error{
		audit.TaskPaused: func(ctx context.Context, x *target, id string) error {
			_, err := x.Broker.PauseTask(ctx, x.who(brokertest.Operator), id, "look")
			return err
		},
		audit.TaskTainted: func(ctx context.Context, x *target, id string) error {
			_, err := x.Broker.TaintTask(ctx, x.who(brokertest.Operator), id, []string{"web"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{})
			s := x.Open(t, brokertest.Spec())
			ctx, hangUp := context.WithCancel(t.Context())
			x.store.onDone(name, func() error { hangUp(); return nil })
			_ = do(ctx, x, s.Task.ID)
			live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
			if err != nil || live.State != broker.TaskPaused && len(live.Taint) != 1 {
				t.Errorf("on the record and not in force: state %s, taint %v (%v)", live.State, live.Taint, err)
			}
		})
	}
}
