package issuance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
)

// outcome makes the credential durable, and checks once more whether it may be returned. It
// returns when the credential expires.
func (m *minting) outcome(cred provider.Credential) (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), broker.MintSlack)
	defer cancel()
	b, l, now := m.b, &m.lease, m.b.clock.Now()
	exp := broker.Earliest(l.ExpiresAt, cred.ExpiresAt, cred.DiesAt).Truncate(time.Second)
	if exp.Sub(now) < time.Second {
		return exp, m.fall(cred, fmt.Errorf("the credential has expired already: at %s", exp))
	}
	r := thirdparty.Weaker(kernel.Promised(m.u.Provider), cred.Revocability)
	l.Class, l.ExpiresAt = r.Class, exp
	l.Upstream = &broker.Upstream{Bound: broker.Seconds(r.Bound / time.Second), DiesAt: m.diesAt(cred), NextAt: exp}
	if !cred.Handle.Empty() {
		sealed, err := b.sealer.Seal(l.ID, cred.Handle)
		if err != nil {
			return exp, m.fall(cred, fmt.Errorf("sealing: %w", err))
		}
		l.Upstream.Handle = sealed
	}
	err := b.store.Append(ctx, broker.Record{
		SettleLease: &broker.LeaseMove{ID: l.ID, Fence: 1, State: broker.LeaseLive, At: l.IssuedAt, Class: l.Class, ExpiresAt: exp, Upstream: *l.Upstream},
		Entries:     []audit.Entry{b.LeaseEntry(audit.LeaseIssued, l.Sandbox, *l, issuedOf(*l, m.d))},
	})
	switch {
	case errors.Is(err, broker.ErrTaskClosed): // saved, but it must be revoked
		m.u.Nudge()
		return exp, m.undelivered(ctx, err)
	case err != nil:
		return exp, m.fall(cred, err)
	}
	alive, err := b.callers.Alive(ctx, l.TaskID, l.ID)
	if err != nil {
		return exp, m.fall(cred, err)
	}
	if !alive {
		return exp, m.fall(cred, m.gone(ctx))
	}
	if err := b.tasks.still(ctx, m.w.Live.Task); err != nil {
		return exp, m.fall(cred, err)
	}
	if len(m.w.Lineage) > 0 {
		// The parent was revoked while it was narrowed.
		if alive, err := b.callers.Alive(ctx, l.TaskID, m.w.Lineage...); err != nil || !alive {
			return exp, m.fall(cred, errors.Join(err, broker.ErrDone))
		}
	}
	return exp, nil
}

// diesAt returns when the provider itself stops accepting a credential. A provider whose clock
// is behind may name an earlier moment than the requested expiry; then the requested one
// counts.
func (m *minting) diesAt(cred provider.Credential) time.Time {
	if asked := m.lease.Upstream.DiesAt; !cred.DiesAt.IsZero() && cred.DiesAt.Before(asked) {
		return asked
	}
	return cred.DiesAt
}

// gone returns why the live store does not know a lease that it accepted a moment ago.
func (m *minting) gone(ctx context.Context) error {
	b, id := m.b, m.lease.TaskID
	if b.revoked.Has(id, b.clock.Now()) {
		return broker.ErrTaskClosed
	}
	live, err := b.liveStore.Admit(ctx, broker.Admission{TaskID: id})
	if err == nil && live.State == broker.TaskClosed {
		return broker.ErrTaskClosed
	}
	return errors.Join(broker.ErrLost, err)
}

// never ends an intent that led to no credential at the provider, and translates the cause.
func (m *minting) never(cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), broker.FailTime)
	defer cancel()
	b, l, now := m.b, m.lease, m.b.clock.Now()
	b.endInLiveStore(ctx, l)
	moved := m.u.Held.Move()
	err := b.store.Append(ctx, broker.Record{
		SettleLease: &broker.LeaseMove{ID: l.ID, Fence: 1, State: broker.LeaseRevoked, At: now, By: kernel.Self, Upstream: broker.Upstream{
			Bound: l.Upstream.Bound, DiesAt: l.Upstream.DiesAt, DeadAt: now, Proof: broker.ProofNever,
		}},
		Entries: []audit.Entry{m.undeliveredEntry(cause)},
	})
	if err == nil {
		moved(-1)
	} else { // it is counted when the intent is settled
		moved(0)
	}
	if err != nil && !errors.Is(err, broker.ErrDone) {
		b.logger.ErrorContext(ctx, "an intent without a credential could not be ended; the revocation queue will settle it", "lease_id", l.ID, "error", err)
	}
	b.rang.Ring(l.TaskID)
	return undeliveredError(cause)
}

// fall makes the revocation of a credential pending that may exist and was not returned. If the
// store does not accept that, the credential is revoked at once, from here.
func (m *minting) fall(cred provider.Credential, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), broker.FailTime)
	defer cancel()
	b, l := m.b, m.lease
	b.logger.WarnContext(ctx, "the mint failed; revoking the credential that may exist", "lease_id", l.ID, "provider", l.Provider, "error", cause)
	if cred.Handle.Empty() {
		cred.Handle = m.handle
	}
	if !m.part { // a credential from a response ends only by its expiry, so that its handle is not needed to revoke it
		b.kept.Keep(l.ID, cred.Handle)
	}
	b.endInLiveStore(ctx, l)
	up, move := *l.Upstream, broker.LeaseMove{ID: l.ID, Fence: 1, State: broker.LeaseRevoking, At: l.IssuedAt, By: kernel.Self}
	if !cred.Token.Empty() { // there is a credential, and it states its revocability
		r := thirdparty.Weaker(kernel.Promised(m.u.Provider), cred.Revocability)
		move.Class, up.Bound, up.DiesAt = r.Class, broker.Seconds(r.Bound/time.Second), m.diesAt(cred)
	}
	up.NextAt, up.LastError = l.IssuedAt, "The mint did not succeed."
	if sealed, err := b.sealer.Seal(l.ID, cred.Handle); err == nil && !cred.Handle.Empty() {
		up.Handle = sealed
	}
	move.Upstream = up
	err := b.store.Append(ctx, broker.Record{SettleLease: &move, Entries: []audit.Entry{m.undeliveredEntry(cause)}})
	if err == nil {
		if up.Handle != "" {
			b.kept.Drop(l.ID)
		}
		if move.Class == provider.ClassTTLOnly && l.Class != move.Class {
			m.takeBack(cred) // the revocation queue makes no call for this class; a call may still help
		}
		m.u.Nudge()
		return undeliveredError(cause)
	}
	// Either the revocation queue settled the intent before the credential existed, or the
	// store is down. In both cases only this process may know of the credential.
	b.logger.ErrorContext(ctx, "a pending revocation could not be recorded; revoking the credential now", "lease_id", l.ID, "error", err)
	gone := m.takeBack(cred)
	if errors.Is(err, broker.ErrDone) {
		m.tooLate(ctx, cred, cause, gone)
	} else {
		b.pending.KeepLeaseEnd(kernel.PendingLease{Lease: l, By: kernel.Self})
	}
	return undeliveredError(cause)
}

// takeBack revokes a credential now that was not returned to a client.
func (m *minting) takeBack(cred provider.Credential) (done bool) {
	ctx, stop := context.WithTimeout(context.Background(), broker.CallTime)
	defer stop()
	t := m.b.useTarget(m.lease, cred.Handle)
	t.Now = t.IssuedAt // the credential is seconds old and cannot have expired, even if the clock was set ahead during the mint
	err := m.u.Revoke(ctx, t)
	if err != nil {
		m.b.logger.ErrorContext(ctx, "an undelivered credential could not be revoked", "lease_id", m.lease.ID, "error", err)
	}
	return err == nil
}

// undelivered is fall for a credential whose revocation is pending already.
func (m *minting) undelivered(ctx context.Context, cause error) error {
	m.b.endInLiveStore(ctx, m.lease)
	m.b.log.Note(ctx, m.undeliveredEntry(cause))
	return undeliveredError(cause)
}

func (m *minting) undeliveredEntry(cause error) audit.Entry {
	return m.b.LeaseEntry(audit.LeaseUndelivered, kernel.Self, m.lease, map[string]string{"why": errorKind(cause)})
}

// endInLiveStore refuses a lease in the live store. A failure is only logged, because the task's
// end or the missing outcome in the store refuses the lease too.
func (tp *ThirdParties) endInLiveStore(ctx context.Context, l broker.Lease) {
	tp.feed.Ended(l.ID, l.ExpiresAt)
	ctx, cancel := context.WithTimeout(ctx, kernel.LiveStoreTime)
	defer cancel()
	if _, err := tp.liveStore.EndLease(ctx, broker.LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, tp.clock.Now()); err != nil {
		tp.logger.ErrorContext(ctx, "an undelivered lease could not be ended in the live store", "lease_id", l.ID, "error", err)
	}
}

// LeaseEntry returns an audit entry about a lease.
func (tp *ThirdParties) LeaseEntry(kind, actor string, l broker.Lease, data any) audit.Entry {
	e := tp.log.TaskEntry(kind, actor, l.TaskID, data)
	e.LeaseID, e.RequestID = l.ID, l.RequestID
	return e
}

// tooLate handles a late credential: one that was minted after its intent was settled. The
// store refused the audit entry with the outcome, so it is written alone, and the revocation
// queue takes the credential.
func (m *minting) tooLate(ctx context.Context, cred provider.Credential, cause error, gone bool) {
	e := m.undeliveredEntry(cause)
	if m.part && !cred.DiesAt.IsZero() { // from a response: it cannot be revoked, and its lease has an estimated expiry
		e = m.b.LeaseEntry(audit.LeaseUndelivered, kernel.Self, m.lease, map[string]any{"why": errorKind(cause), "dies_at": cred.DiesAt})
	}
	m.b.log.Note(ctx, e)
	if !m.part {
		m.b.queue.KeepLate(ctx, m.u, m.lease, cred.Handle, gone)
	}
}
