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
func settleLife(t *queueTest) {
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
func settleFence(t *queueTest) {
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

func settleFinal(t *queueTest) {
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
func (t *queueTest) erased(l broker.Lease) {
	t.Helper()
	if l.Upstream.Handle == "" {
		t.Fatal("the lease never had a handle")
	}
	err := t.Store.Append(t.Context(), broker.Record{ResealLease: &broker.LeaseSeal{ID: l.ID, From: l.Upstream.Handle, To: "v1.key2.x"}})
	t.want("the handle of what has ended", err, broker.ErrDone)
}

// A final state erases the handle, also when the move to it contains one.
func settleErases(t *queueTest) {
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
func settleOnce(t *queueTest) {
	l := t.pending(t.openTask().ID, Epoch.Add(3*time.Minute))
	at := Epoch.Add(4 * time.Minute)
	t.want("settle", t.settle(done(l.ID, 1, broker.LeaseRevoking, at)), nil)
	t.want("settle", t.settle(done(l.ID, 1, broker.LeaseRevoked, at)), nil)
	got := t.leaseAt(l.ID, at)
	if !got.RevokedAt.Equal(l.RevokedAt) || got.RevokedBy != "ops" || got.Cause != "" {
		t.Errorf("got %+v, want what ended it first", got)
	}
}

func settleExpiry(t *queueTest) {
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

func settleHandle(t *queueTest) {
	l := t.live(t.openTask().ID)
	m := lived(l)
	m.Upstream.Handle = ""
	t.want("settle", t.settle(*m), nil)
	t.same("handle", t.take(l.ExpiresAt, 1)[0].Upstream.Handle, l.Upstream.Handle)
}

// Repeating a move is safe until another worker claims the lease.
func settleAgain(t *queueTest) {
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

func settleRefused(t *queueTest) {
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

// The close of a task moves its leases at third parties in the same unit.
func closeMoves(t *queueTest) {
	task, other := t.openTask(), t.openTask()
	at := Epoch.Add(4 * time.Minute)
	intent, live, own := t.intent(task.ID), t.live(task.ID), t.issue(Lease(task.ID))
	revoking := t.pending(task.ID, Epoch.Add(3*time.Minute))
	m := done(revoking.ID, 1, broker.LeaseRevoking, Epoch.Add(3*time.Minute))
	t.want("settle", t.settle(m), nil)
	revoking.Upstream = &m.Upstream
	ended := t.live(task.ID)
	t.want("settle", t.settle(done(ended.ID, 1, broker.LeaseRevoked, Epoch.Add(2*time.Minute))), nil)
	wantEnded := t.leaseAt(ended.ID, at)
	stranger := t.live(other.ID)

	pause := &broker.TaskMove{ID: task.ID, State: broker.TaskPaused, By: "ops", At: Epoch.Add(3 * time.Minute)}
	t.append(broker.Record{MoveTask: pause})
	t.same("paused", t.leaseAt(live.ID, at), shown(live))
	t.close(task.ID, at)

	for _, l := range []broker.Lease{intent, live} {
		l.State, l.RevokedAt, l.RevokedBy, l.Cause = broker.LeaseRevoking, at, "ops", broker.CauseStopped
		up := *l.Upstream
		up.NextAt = at
		l.Upstream = &up
		t.same("moved", t.leaseAt(l.ID, at), shown(l))
	}
	t.same("pending before", t.leaseAt(revoking.ID, at), shown(revoking))
	t.same("dead before", t.leaseAt(ended.ID, at), wantEnded)
	t.same("of another task", t.leaseAt(stranger.ID, at), shown(stranger))
	if got := t.leaseAt(own.ID, at); got.State != broker.LeaseRevoked || got.Upstream != nil {
		t.Errorf("own token: got %+v", got)
	}
	// The minter's claim stays: its credential is revoked when the minter settles, or
	// when the claim ends.
	t.same("due", ids(t.take(at.Add(-time.Millisecond), 10)), []string{})
	t.want("close again", t.Store.Append(t.Context(), broker.Record{MoveTask: closing(task.ID, at.Add(time.Hour))}), broker.ErrDone)
	t.same("due", ids(t.take(at, 10)), []string{intent.ID, live.ID})
	t.same("moved once", t.leaseAt(live.ID, at).Upstream.NextAt, at)
}

// A mint that returns after the close: its handle is stored, and no caller gets the
// credential.
func closeThenSettle(t *queueTest) {
	for _, state := range []broker.LeaseState{broker.LeaseIntent, broker.LeaseLive} {
		task := t.openTask()
		l := t.intent(task.ID)
		end := l.IssuedAt.Add(time.Second)
		t.close(task.ID, end)
		t.same("while it is minted", ids(t.take(end, 10)), []string{})
		before := len(t.entries(broker.EntryFilter{}))
		m := lived(l)
		m.State, m.At, m.Class = state, end.Add(time.Second), "instant"
		m.Upstream.LastError = "said"
		t.want("settle", t.settle(*m, Entry(audit.LeaseIssued, task.ID)), broker.ErrTaskClosed)
		t.same("entries", len(t.entries(broker.EntryFilter{})), before)
		want := l
		want.State, want.RevokedAt, want.RevokedBy, want.Cause, want.Class = broker.LeaseRevoking, end, "ops", broker.CauseStopped, "instant"
		up := m.Upstream
		up.NextAt = m.At
		want.Upstream = &up
		t.same("kept", t.leaseAt(l.ID, end), shown(want))
		t.want("again", t.settle(*m), broker.ErrTaskClosed)
		got := t.take(m.At, 10)
		t.same("pending at once", ids(got), []string{l.ID})
		t.same("with its handle", got[0].Lease, want)
		t.want("and dead", t.settle(done(l.ID, got[0].Fence, broker.LeaseRevoked, m.At)), nil)
	}
	// The same if only the lease was revoked.
	l := t.intent(t.openTask().ID)
	t.want("end", t.end(l.ID, broker.LeaseRevoking, l.IssuedAt), nil)
	t.want("settle", t.settle(*lived(l)), broker.ErrTaskClosed)
	t.same("state", t.leaseAt(l.ID, l.IssuedAt).State, broker.LeaseRevoking)
}

// A lease that expired before the close of its task is not recorded as revoked by it.
func closeExpired(t *queueTest) {
	task := t.openTask()
	l := t.live(task.ID)
	t.close(task.ID, l.ExpiresAt.Add(time.Minute))
	got := t.leaseAt(l.ID, l.ExpiresAt.Add(time.Hour))
	if got.State != broker.LeaseRevoking || !got.RevokedAt.Equal(l.ExpiresAt) {
		t.Errorf("got %+v, want refused since its expiry", got)
	}
}

func endUpstream(t *queueTest) {
	task := t.openTask()
	at := Epoch.Add(3 * time.Minute)
	for _, l := range []broker.Lease{t.intent(task.ID), t.live(task.ID)} {
		for _, s := range []broker.LeaseState{broker.LeaseRevoked, broker.LeaseExpired} {
			t.want("only the revocation queue says so", t.end(l.ID, s, at), broker.ErrPendingRevocation)
		}
		t.same("lease", t.leaseAt(l.ID, at), shown(l))
		for i := range 2 { // the second time it is retried at once
			next := at.Add(time.Duration(i) * time.Minute)
			t.want("owe", t.end(l.ID, broker.LeaseRevoking, next), nil)
			l.State, l.RevokedAt, l.RevokedBy, l.Upstream.NextAt = broker.LeaseRevoking, at, "ops", next
			t.same("lease", t.leaseAt(l.ID, at), shown(l))
		}
		t.want("only the revocation queue says so", t.end(l.ID, broker.LeaseRevoked, at), broker.ErrPendingRevocation)
	}
	late := t.live(task.ID)
	t.want("owe after its expiry", t.end(late.ID, broker.LeaseRevoking, late.ExpiresAt.Add(time.Minute)), nil)
	t.same("refused since", t.leaseAt(late.ID, at).RevokedAt, late.ExpiresAt)
	t.want("dead", t.settle(done(late.ID, 1, broker.LeaseExpired, late.ExpiresAt)), nil)
	forced := t.take(at.Add(time.Hour), 10)
	for _, c := range forced {
		t.want("force", t.end(c.ID, broker.LeaseUnconfirmed, at.Add(time.Hour)), nil)
		got := t.leaseAt(c.ID, at)
		if got.State != broker.LeaseUnconfirmed || got.Upstream.Proof != broker.ProofForced || !got.Upstream.DeadAt.IsZero() || !got.Upstream.NextAt.IsZero() || !got.RevokedAt.Equal(at) {
			t.Errorf("got %+v %+v, want a person's word", got, got.Upstream)
		}
		if c.Upstream.Handle != "" {
			t.erased(c.Lease)
		}
		t.want("who worked on it", t.settle(done(c.ID, c.Fence, broker.LeaseRevoked, at)), broker.ErrDone)
		t.same("lease", t.leaseAt(c.ID, at), got)
		for _, s := range allStates[2:] {
			t.want("end it again", t.end(c.ID, s, at), broker.ErrDone)
		}
	}
	t.same("forced", len(forced), 2)
}

// A lease narrowed from a credential is revoked with it: an own token at once, one at a
// third party through the revocation queue.
func endNarrowed(t *queueTest) {
	task := t.openTask()
	at := Epoch.Add(3 * time.Minute)
	root := t.issue(Lease(task.ID))
	under := func(l broker.Lease, parent string) broker.Lease {
		l.ParentID = parent
		return t.issue(l)
	}
	own, intent, dead := under(Lease(task.ID), root.ID), under(Intent(task.ID), root.ID), under(Intent(task.ID), root.ID)
	live := under(Intent(task.ID), own.ID)
	t.want("live", t.settle(*lived(live)), nil)
	t.want("dead", t.settle(done(dead.ID, 1, broker.LeaseRevoked, Epoch.Add(2*time.Minute))), nil)
	last := t.leaseAt(dead.ID, at)
	t.want("end the root", t.end(root.ID, broker.LeaseRevoked, at), nil)
	t.same("own token", t.leaseAt(own.ID, at).State, broker.LeaseRevoked)
	for _, id := range []string{intent.ID, live.ID} {
		if got := t.leaseAt(id, at); got.State != broker.LeaseRevoking || !got.RevokedAt.Equal(at) || got.RevokedBy != "ops" || !got.Upstream.NextAt.Equal(at) {
			t.Errorf("got %+v %+v, want its end pending", got, got.Upstream)
		}
	}
	t.same("dead before", t.leaseAt(dead.ID, at), last)
	t.same("in the revocation queue", ids(t.take(at, 10)), []string{intent.ID, live.ID})
}
