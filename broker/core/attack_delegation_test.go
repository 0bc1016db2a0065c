package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// The close of a task holds for its delegated tasks from the first moment, also while the database,
// which alone knows them, does not answer.
func TestAttackDelegateOutlivesWithoutStore(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, delegating())
	child := s.Delegate(t, ceiling("orders:eu/1:read"))
	tok := minted(t, child, "orders:eu/1:read")
	down := func(is error) {
		for _, op := range []string{"Append", "Tasks", "Leases", "Requests"} {
			x.store.on(op, func() error { return is })
		}
	}
	down(errDown)
	_, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
	kindOf(t, err, broker.Unavailable)
	for name, b := range map[string]*core.Broker{"here": x.Broker, "at a replica": other} {
		if activeAt(t, x, b, tok.Token.Reveal()) {
			t.Errorf("%s a token below a refused task is active", name)
		}
	}
	down(nil)
	x.janitor(t, x.Broker)
	eventually(t, "the whole tree is closed on the record", func() bool {
		got, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{s.Task.ID, child.Task.ID}, State: broker.TaskClosed})
		return err == nil && len(got) == 2
	})
}

// A denial holds for delegates of the denied sandbox; counts and open requests are those of the
// whole tree; and suspicion closes all of it.
func TestAttackDelegateForACleanSlate(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := delegating()
	spec.Caps.OpenRequests = 3
	s := x.Open(t, spec)
	ann := x.who(brokertest.Approver)
	p := pending(t, s, "orders:eu/1:write")
	if _, err := x.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Code: broker.NotNeeded}); err != nil {
		t.Fatal(err)
	}
	child := s.Delegate(t, ceiling("orders:eu/**:write"))
	_, err := child.AskDeferred(t, "orders:eu/1:write")
	kindOf(t, err, broker.Denied)

	second := s.Delegate(t, ceiling("orders:eu/**:write"))
	var last *broker.PendingInfo
	for i, who := range []*brokertest.Sandbox{child, second, child} {
		last = pending(t, who, []string{"orders:eu/2:write", "orders:eu/3:write", "orders:eu/4:write"}[i])
	}
	for _, who := range []*brokertest.Sandbox{s, child, second} {
		_, err := who.AskDeferred(t, "orders:eu/5:write")
		kindOf(t, err, broker.TooMany)
	}

	_, err = child.Ask(t, "orders:us/1:read")
	kindOf(t, err, broker.InvalidScope)
	count := func() int {
		l, err := x.Config.LiveStore.Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
		if err != nil {
			t.Fatal(err)
		}
		return l.Denials
	}
	before := count()
	if before < 3 {
		t.Errorf("%d denials count against the delegating task", before)
	}
	x.memory.lose()
	x.replica(t)
	if after := count(); after != before {
		t.Errorf("%d denials after the live store was lost, %d before", after, before)
	}

	if _, err := x.Broker.Decide(t.Context(), ann, last.RequestID, broker.Verdict{Code: broker.Suspicious}); err != nil {
		t.Fatal(err)
	}
	for _, who := range []*brokertest.Sandbox{s, child, second} {
		got, err := x.Broker.Task(t.Context(), x.who(brokertest.Auditor), who.Task.ID)
		if err != nil || got.State != broker.TaskClosed {
			t.Errorf("after suspicion a task of the tree is %s (%v)", got.State, err)
		}
	}
}

// A pause of an ancestor that was acknowledged holds for a mint that was admitted before it.
//
//ebb:invariant I2 A delegated task receives a credential only if its ancestor tasks are checked again after the lease is added to the live store
func TestAttackDelegateMintsBehindThePause(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, delegating())
	child := s.Delegate(t, ceiling("orders:eu/1:read"))
	x.liveStore.on("PutLease", func() error {
		_, err := x.replica(t).PauseTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, "stop")
		return err
	})
	_, err := child.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Denied)
}

// No receipt is signed for an incomplete close, and the caller is not told that it is complete.
func TestAttackReceiptOfHalfAnEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, delegating())
	early := s.Delegate(t, ceiling("orders:eu/1:read"))
	child := s.Delegate(t, ceiling("orders:eu/1:read"))
	minted(t, early, "orders:eu/1:read")
	minted(t, child, "orders:eu/1:read")
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), early.Task.ID, broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(time.Second)
	looks := 0
	x.store.on("Tasks", func() error { // fails after the close of the parent is durable
		ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{s.Task.ID}, State: broker.TaskClosed})
		if looks += len(ts); err == nil && looks > 1 {
			err = errDown
		}
		return err
	})
	_, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
	kindOf(t, err, broker.Unavailable)
	x.store.on("Tasks", func() error { return nil })
	_, _, err = x.Broker.Receipt(t.Context(), x.who(brokertest.Auditor), s.Task.ID)
	kindOf(t, err, broker.Conflict)
	c, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
	if err != nil || c.Delegated != 1 || c.Revoked != 1 {
		t.Errorf("the whole end: %+v (%v)", c, err)
	}
	r, _, err := x.Broker.Receipt(t.Context(), x.who(brokertest.Auditor), s.Task.ID)
	if err != nil || r.Delegated != 1 || r.Live != 1 || r.Uncounted {
		t.Errorf("the receipt: %+v (%v)", r, err)
	}
}

// People read the selectors that a sandbox writes.
func TestAttackDelegateSelectors(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, delegating())
	for _, more := range []map[string]string{
		{"a": "\u202egnp"}, {"a": "x\x1b[2J"}, {"a b": "x"}, {"\x00": "x"}, {"a": string(make([]byte, 257))}, {"a": "x\ny"},
	} {
		d := ceiling("orders:eu/1:read")
		d.Selectors = more
		_, _, err := s.AskDelegate(t, d)
		kindOf(t, err, broker.Invalid)
	}
}
