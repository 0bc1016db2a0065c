package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// Between the loss of the LiveStore and its discovery, a task does not count as unknown.
func TestAttackLossIsNotTheEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.memory.lose()
	runner := x.who(brokertest.Runner)
	_, err := x.Broker.Beat(t.Context(), runner, s.Task.ID)
	kindOf(t, err, broker.Unavailable)
	_, err = x.Broker.TaintTask(t.Context(), runner, s.Task.ID, []string{"web"})
	kindOf(t, err, broker.Unavailable)
	_, err = x.Broker.PauseTask(t.Context(), runner, s.Task.ID, "")
	kindOf(t, err, broker.Unavailable)
}

// H27: a proof and an assertion stay used after the process that accepted them has ended.
func TestAttackReplayAfterRestart(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	r := s.Request(t, "orders:eu/1:read")
	if _, err := x.Broker.Token(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	assertion := x.Assertion(t, brokertest.Operator, x.Keys[brokertest.Operator])
	if _, err := x.Broker.AuthenticateAssertion(t.Context(), assertion, "", broker.Possession{}); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(2 * time.Second)
	x.memory.lose()
	restarted := x.replica(t)
	_, err := restarted.Token(t.Context(), r)
	kindOf(t, err, broker.UseNonce)
	_, err = restarted.PrincipalToken(t.Context(), assertion, x.Prove(t, brokertest.NewKey(t)), "")
	kindOf(t, err, broker.Unavailable)
	if _, err := restarted.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err != nil {
		t.Errorf("a new proof: %v", err)
	}
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || live.Violations != 0 {
		t.Errorf("a proof from before the restart counts as a violation: %d (%v)", live.Violations, err)
	}
	fresh := func(p broker.Possession) error {
		_, err := restarted.AuthenticateAssertion(t.Context(), x.Assertion(t, brokertest.Operator, x.Keys[brokertest.Operator]), "", p)
		return err
	}
	if err := fresh(x.Prove(t, x.Keys[brokertest.Operator])); err != nil {
		t.Errorf("a new assertion with a proof of its key: %v", err)
	}
	e := kindOf(t, fresh(broker.Possession{}), broker.Unavailable)
	if e.RetryAfter <= 0 || e.RetryAfter > 11*time.Second {
		t.Errorf("a new assertion may come again in %v", e.RetryAfter)
	}
	x.Clock.Add(e.RetryAfter)
	if err := fresh(broker.Possession{}); err != nil {
		t.Errorf("a new assertion after the seconds of Retry-After: %v", err)
	}
}

// The outcome of opening a task is unknown, or its ticket cannot be issued: the caller does not
// know the task, so it must not stay open.
//
//ebb:invariant I1
func TestAttackTaskNobodyKnows(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*target){
		"unknown outcome": func(x *target) { x.store.onDone(audit.TaskOpened, once(errDown)) },
		"no live store":   func(x *target) { x.liveStore.on("PutTask", once(errDown)) },
		"no ticket":       func(x *target) { x.liveStore.on("Put", once(errDown)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := attacked(t, brokertest.Config{Run: true})
			fault(x)
			_, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
			kindOf(t, err, broker.Unavailable)
			eventually(t, "the task is closed", func() bool {
				ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{})
				return err == nil && len(ts) == 1 && ts[0].State == broker.TaskClosed
			})
		})
	}
}

// The database has the sandbox, and the LiveStore does not: the task must not be stuck.
func TestAttackSandboxUnknownToTheLiveStore(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	x.liveStore.on("Touch", once(errDown))
	task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), brokertest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	s := &brokertest.Sandbox{Env: x.Env, Key: brokertest.NewKey(t), Task: task}
	for range 2 { // the second time with another ticket
		var en broker.Enrolment
		if en, err = x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, s.Key)); err == nil {
			s.TaskToken = en.Token.Reveal()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	p := pending(t, s, "orders:eu/1:write")
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	if _, err := s.Poll(t, p.DeferralCode.Reveal()); err != nil {
		t.Errorf("an approved request cannot be redeemed: %v", err)
	}
}

// The LiveStore is lost between the two halves of a taint.
func TestAttackLossBetweenTheHalvesOfATaint(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on(audit.TaskTainted, func() error {
		x.memory.lose()
		x.replica(t)
		return nil
	})
	if _, err := x.Broker.TaintTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || len(live.Taint) != 1 {
		t.Errorf("acknowledged and not in force: %v (%v)", live.Taint, err)
	}
}

// If the LiveStore is lost while the clock is ahead, it is refilled with the leases that are live by the right clock.
func TestAttackLossWhileTheClockIsAhead(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	closed, open := x.Open(t, brokertest.Spec()), x.Open(t, brokertest.Spec())
	ofClosed, revoked, live := minted(t, closed, "orders:eu/1:read"), minted(t, open, "orders:eu/1:read"), minted(t, open, "orders:eu/1:read")
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), closed.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), revoked.LeaseID, "test"); err != nil {
		t.Fatal(err)
	}
	start, steady := x.Clock.Now(), x.Clock.Steady()
	x.memory.now = func() time.Time { return start.Add(x.Clock.Steady() - steady) } // its machine has the right clock
	x.Clock.Jump(48 * time.Hour)
	x.memory.lose()
	x.Broker.Watch(t.Context())
	x.Clock.Jump(-48 * time.Hour)
	for name, of := range map[string]struct {
		token broker.Token
		want  bool
	}{"of a closed task": {ofClosed, false}, "revoked": {revoked, false}, "live": {live, true}} {
		if got := activeAt(t, x, x.Broker, of.token.Token.Reveal()); got != of.want {
			t.Errorf("%s: active is %v", name, got)
		}
	}
	_, err := x.Broker.Token(t.Context(), closed.Request(t, "orders:eu/1:read"))
	kindOf(t, err, broker.Invalid)
}

// Revocations need not be stored for longer than a token can live.
func TestAttackEndsAreForgotten(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Limits: broker.Limits{MaxTTL: 5 * time.Minute}})
	spec := brokertest.Spec()
	spec.TTL = 60
	s := x.Open(t, spec)
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	evs, _, err := x.Broker.Follow(t.Context(), x.who(brokertest.Server), "", 10, 0)
	if err != nil || len(evs) != 1 {
		t.Fatalf("%v %v", evs, err)
	}
	if left := evs[0].Until.Sub(x.Clock.Now()); left < 6*time.Minute || left > time.Hour {
		t.Errorf("the end is remembered for %v, a token lives for at most 5 minutes", left)
	}
}
