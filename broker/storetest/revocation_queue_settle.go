package storetest

import (
	"errors"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/provider"
)

var (
	finals    = []broker.LeaseState{broker.LeaseRevoked, broker.LeaseExpired, broker.LeaseUnconfirmed}
	allStates = append([]broker.LeaseState{broker.LeaseIntent, broker.LeaseLive, broker.LeaseRevoking}, finals...)
)

// done returns a move to a final state.
func done(id string, fence int64, s broker.LeaseState, at time.Time) broker.LeaseMove {
	return broker.LeaseMove{ID: id, Fence: fence, State: s, At: at, By: "ebb", Cause: broker.CauseDeadline,
		Upstream: broker.Upstream{Bound: 60, AcceptedAt: at.Add(-time.Minute), DeadAt: at, ProbedAt: at, Proof: broker.ProofProbed, Attempts: 3, NextAt: at.Add(time.Hour)}}
}

// settleLife goes through all states of a lease and checks every member at each step.
func settleLife(t *storeTest) {
	l := t.intent(t.openTask().ID)
	at := func(n int) time.Time { return l.IssuedAt.Add(time.Duration(n) * time.Second) }
	steps := []broker.LeaseMove{
		{State: broker.LeaseIntent, Hold: at(40), Upstream: broker.Upstream{Bound: 60, DiesAt: at(9000), NextAt: at(40), Handle: "v1.key1.a"}},
		{State: broker.LeaseLive, Class: provider.ClassInstant, ExpiresAt: at(300), Upstream: broker.Upstream{Bound: 30, DiesAt: at(8000), NextAt: at(300), Handle: "v1.key1.b"}},
		{State: broker.LeaseRevoking, By: "ops", Cause: broker.CauseStopped, Upstream: broker.Upstream{DiesAt: at(8000), Attempts: 1, NextAt: at(90), LastError: "The provider is busy."}},
		{State: broker.LeaseRevoking, By: "ebb", Cause: broker.CauseDeadline, Upstream: broker.Upstream{AcceptedAt: at(7), Attempts: 2, Unjudged: 3, NextAt: at(120)}},
		{State: broker.LeaseRevoked, By: "ebb", Upstream: broker.Upstream{AcceptedAt: at(7), DeadAt: at(9), ProbedAt: at(9), Proof: broker.ProofProbed, Attempts: 2}},
	}
	handle := ""
	for i, m := range steps {
		m.ID, m.Fence, m.At = l.ID, 1, at(i)
		e := Entry(audit.LeaseIssued, l.TaskID)
		e.LeaseID = l.ID
		t.want("settle", t.settle(m, e), nil)
		l.State, l.Upstream = m.State, &m.Upstream
		if m.Class != "" {
			l.Class, l.ExpiresAt = m.Class, m.ExpiresAt
		}
		if i == 2 {
			l.RevokedAt, l.RevokedBy, l.Cause = m.At, "ops", broker.CauseStopped
		}
		if m.Upstream.Handle != "" {
			handle = m.Upstream.Handle
		}
		t.same("lease", t.leaseAt(l.ID, at(i)), shown(l))
		t.same("entries", len(t.entries(broker.EntryFilter{LeaseID: l.ID})), i+2)
		if i < len(steps)-1 {
			got, err := t.Store.Sealed(t.Context(), "none", "", 10)
			if err != nil || len(got) != 1 || got[0].Upstream.Handle != handle {
				t.Fatalf("step %d: got %+v, %v; want the handle %s", i, got, err, handle)
			}
		}
	}
}

// Of two workers on one lease, only the outcome of the later claim is stored.
func settleFence(t *storeTest) {
	l := t.pending(t.openTask().ID, Epoch.Add(5*time.Minute))
	at := l.RevokedAt
	t.take(at, 1)
	at = at.Add(time.Minute)
	later := t.take(at, 1)[0]
	before := len(t.entries(broker.EntryFilter{}))
	for _, fence := range []int64{1, 2, 4} {
		for _, s := range allStates {
			m := done(l.ID, fence, s, at)
			t.want("settle without the claim", t.settle(m, Entry(audit.LeaseRevoked, l.TaskID)), broker.ErrDone)
		}
	}
	t.same("lease", t.leaseAt(l.ID, at), shown(l))
	t.same("entries", len(t.entries(broker.EntryFilter{})), before)
	// A claim that has ended is still valid while no other worker has claimed the lease.
	at = at.Add(time.Hour)
	t.want("settle", t.settle(done(l.ID, later.Fence, broker.LeaseRevoked, at)), nil)
	t.want("unknown", t.settle(done("lse_none", 1, broker.LeaseRevoked, at)), broker.ErrNotFound)
	own := t.issue(Lease(l.TaskID))
	t.want("own token", t.settle(done(own.ID, 1, broker.LeaseRevoked, at)), broker.ErrNotFound)
	t.same("own token", t.leaseAt(own.ID, own.IssuedAt), own)
}

func settleFinal(t *storeTest) {
	task := t.openTask()
	for _, s := range finals {
		l := t.live(task.ID)
		at := l.IssuedAt.Add(time.Minute)
		t.want("settle", t.settle(done(l.ID, 1, s, at)), nil)
		got := t.leaseAt(l.ID, at)
		t.erased(l)
		if got.State != s || !got.RevokedAt.Equal(at) || got.RevokedBy != "ebb" || !got.Upstream.NextAt.IsZero() || got.Upstream.Proof != broker.ProofProbed {
			t.Errorf("got %+v %+v, want %s since %v and out of the revocation queue", got, got.Upstream, s, at)
		}
		for _, other := range allStates {
			t.want("settle it again", t.settle(done(l.ID, 1, other, at.Add(time.Hour)), Entry(audit.LeaseRevoked, task.ID)), broker.ErrDone)
		}
		for _, other := range []broker.LeaseState{broker.LeaseRevoking, broker.LeaseRevoked, broker.LeaseUnconfirmed} {
			t.want("end it", t.end(l.ID, other, at), broker.ErrDone)
		}
		t.same("lease", t.leaseAt(l.ID, at), got)
	}
	t.same("in the revocation queue", ids(t.take(Epoch.Add(100*time.Hour), 10)), []string{})
	t.close(task.ID, Epoch.Add(2*time.Minute))
	t.same("after the end of its task", len(t.leases(broker.LeaseFilter{State: broker.LeaseRevoked})), 1)
}

// erased fails unless the sealed handle of a lease was removed: no handle can be
// resealed.
func (t *storeTest) erased(l broker.Lease) {
	t.Helper()
	if l.Upstream.Handle == "" {
		t.Fatal("the lease never had a handle")
	}
	err := t.Store.Append(t.Context(), broker.Record{ResealLease: &broker.LeaseSeal{ID: l.ID, From: l.Upstream.Handle, To: "v1.key2.x"}})
	t.want("the handle of what has ended", err, broker.ErrDone)
}

// A final state erases the handle, also when the move to it contains one.
func settleErases(t *storeTest) {
	task := t.openTask()
	for _, before := range []broker.LeaseState{broker.LeaseLive, broker.LeaseRevoking} {
		for i, s := range finals {
			l := t.live(task.ID)
			at := l.IssuedAt.Add(time.Minute)
			if before == broker.LeaseRevoking {
				t.want("end", t.end(l.ID, before, at), nil)
			}
			m := done(l.ID, 1, s, at)
			if i == 0 {
				m.Upstream.Handle = "v1.key9.again"
			}
			t.want("settle", t.settle(m), nil)
			t.erased(l)
			l.Upstream.Handle = "v1.key9.again"
			t.erased(l)
		}
	}
}

// RevokedAt, RevokedBy and Cause are written once.
func settleOnce(t *storeTest) {
	l := t.pending(t.openTask().ID, Epoch.Add(3*time.Minute))
	at := Epoch.Add(4 * time.Minute)
	t.want("settle", t.settle(done(l.ID, 1, broker.LeaseRevoking, at)), nil)
	t.want("settle", t.settle(done(l.ID, 1, broker.LeaseRevoked, at)), nil)
	got := t.leaseAt(l.ID, at)
	if !got.RevokedAt.Equal(l.RevokedAt) || got.RevokedBy != "ops" || got.Cause != "" {
		t.Errorf("got %+v, want what ended it first", got)
	}
}

func settleExpiry(t *storeTest) {
	task := t.openTask()
	l := t.intent(task.ID)
	m := lived(l)
	m.ExpiresAt = l.ExpiresAt.Add(time.Hour)
	m.Upstream.NextAt = m.ExpiresAt
	t.want("settle", t.settle(*m), nil)
	got := t.leaseAt(l.ID, l.IssuedAt)
	if !got.ExpiresAt.Equal(l.ExpiresAt) || !got.Upstream.NextAt.Equal(l.ExpiresAt) {
		t.Errorf("got expiry %v, next %v; want both at %v", got.ExpiresAt, got.Upstream.NextAt, l.ExpiresAt)
	}
	m.ExpiresAt = l.IssuedAt.Add(time.Minute)
	t.want("settle", t.settle(*m), nil)
	got = t.leaseAt(l.ID, l.IssuedAt)
	if !got.ExpiresAt.Equal(m.ExpiresAt) || !got.Upstream.NextAt.Equal(m.ExpiresAt) {
		t.Errorf("got expiry %v, next %v; want both at %v", got.ExpiresAt, got.Upstream.NextAt, m.ExpiresAt)
	}
	// A lease found after its expiry was refused from the expiry on, and had its full
	// lifetime.
	end := done(l.ID, 1, broker.LeaseRevoking, m.ExpiresAt.Add(time.Hour))
	t.want("settle", t.settle(end), nil)
	if got := t.leaseAt(l.ID, end.At); !got.RevokedAt.Equal(m.ExpiresAt) {
		t.Errorf("refused since %v, want its expiry %v", got.RevokedAt, m.ExpiresAt)
	}
}

func settleHandle(t *storeTest) {
	l := t.live(t.openTask().ID)
	m := lived(l)
	m.Upstream.Handle = ""
	t.want("settle", t.settle(*m), nil)
	t.same("handle", t.take(l.ExpiresAt, 1)[0].Upstream.Handle, l.Upstream.Handle)
}

// Repeating a move is safe until another worker claims the lease.
func settleAgain(t *storeTest) {
	l := t.live(t.openTask().ID)
	m := lived(l)
	t.want("settle", t.settle(*m), nil)
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), shown(l))
	back := *m
	back.State = broker.LeaseIntent
	t.want("back to an intent", t.settle(back, Entry(audit.LeaseIssued, l.TaskID)), broker.ErrDone)
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), shown(l))
	t.take(l.ExpiresAt, 1)
	t.want("settle", t.settle(*m), broker.ErrDone)
}

func settleRefused(t *storeTest) {
	task := t.openTask()
	l := t.live(task.ID)
	at := l.IssuedAt.Add(time.Minute)
	good := done(l.ID, 1, broker.LeaseRevoked, at)
	for name, f := range map[string]func(*broker.LeaseMove){
		"no id":                  func(m *broker.LeaseMove) { m.ID = "" },
		"no fence":               func(m *broker.LeaseMove) { m.Fence = 0 },
		"no time":                func(m *broker.LeaseMove) { m.At = time.Time{} },
		"no state":               func(m *broker.LeaseMove) { m.State = "" },
		"unknown state":          func(m *broker.LeaseMove) { m.State = "gone" },
		"final without proof":    func(m *broker.LeaseMove) { m.Upstream.Proof = "" },
		"final and held":         func(m *broker.LeaseMove) { m.Hold = at.Add(time.Hour) },
		"live for ever":          func(m *broker.LeaseMove) { m.State, m.Upstream.NextAt = broker.LeaseLive, time.Time{} },
		"revoking for ever":      func(m *broker.LeaseMove) { m.State, m.Upstream.NextAt = broker.LeaseRevoking, time.Time{} },
		"handle with NUL":        func(m *broker.LeaseMove) { m.Upstream.Handle = "a\x00" },
		"error that is no text":  func(m *broker.LeaseMove) { m.Upstream.LastError = "\xff" },
		"attempts less than one": func(m *broker.LeaseMove) { m.Upstream.Attempts = -1 },
		"probes less than one":   func(m *broker.LeaseMove) { m.Upstream.Unjudged = -1 },
	} {
		m := good
		f(&m)
		if err := t.settle(m); err == nil || errors.Is(err, broker.ErrDone) {
			t.Errorf("%s: got %v, want a refusal of the record", name, err)
		}
	}
	own := Lease(task.ID)
	for name, r := range map[string]broker.Record{
		"with a task's end":  {SettleLease: &good, MoveTask: closing(task.ID, at)},
		"with another lease": {SettleLease: &good, IssueLease: &own},
		"with an end":        {SettleLease: &good, EndLease: &broker.LeaseEnd{ID: l.ID, State: broker.LeaseRevoking, At: at}},
	} {
		if err := t.Store.Append(t.Context(), r); err == nil {
			t.Errorf("%s: appended", name)
		}
	}
	t.same("lease", t.leaseAt(l.ID, l.IssuedAt), shown(l))
}
