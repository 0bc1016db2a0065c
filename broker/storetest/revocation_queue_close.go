package storetest

import (
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// The close of a task moves its leases at third parties in the same unit.
func closeMoves(t *storeTest) {
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
func closeThenSettle(t *storeTest) {
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
func closeExpired(t *storeTest) {
	task := t.openTask()
	l := t.live(task.ID)
	t.close(task.ID, l.ExpiresAt.Add(time.Minute))
	got := t.leaseAt(l.ID, l.ExpiresAt.Add(time.Hour))
	if got.State != broker.LeaseRevoking || !got.RevokedAt.Equal(l.ExpiresAt) {
		t.Errorf("got %+v, want refused since its expiry", got)
	}
}

func endUpstream(t *storeTest) {
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
func endNarrowed(t *storeTest) {
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
