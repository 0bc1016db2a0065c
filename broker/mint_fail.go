package broker

import (
	"context"
	"errors"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
)

// failTime bounds what is done about a mint that failed. Whatever made it fail
// must not make its end late too.
const failTime = 10 * time.Second

// never ends an intent of which nothing came into being at the provider, and
// translates why.
func (m *minting) never(cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), failTime)
	defer cancel()
	b, l, now := m.b, m.lease, m.b.now()
	b.endInLedger(ctx, l)
	moved := m.u.held.move()
	err := b.cfg.Journal.Append(ctx, Record{
		SettleLease: &LeaseMove{ID: l.ID, Fence: 1, State: LeaseRevoked, At: now, By: self, Upstream: Upstream{
			Bound: l.Upstream.Bound, DiesAt: l.Upstream.DiesAt, DeadAt: now, Proof: ProofNever,
		}},
		Entries: []audit.Entry{m.undeliveredEntry(cause)},
	})
	if err == nil {
		moved(-1)
	} else { // whoever settles it counts it
		moved(0)
	}
	if err != nil && !errors.Is(err, ErrDone) {
		b.cfg.Logger.ErrorContext(ctx, "an intent of which nothing came stays until the lane settles it", "lease_id", l.ID, "error", err)
	}
	b.rang.ring(l.TaskID)
	return undeliveredError(cause)
}

// fall makes the end of a credential owed that may exist and that nobody got. When
// the journal does not take it, the credential is taken back at once, from here.
func (m *minting) fall(cred provider.Credential, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), failTime)
	defer cancel()
	b, l, now := m.b, m.lease, m.b.now()
	b.cfg.Logger.WarnContext(ctx, "a credential that may exist at its provider is taken back", "lease_id", l.ID, "provider", l.Provider, "error", cause)
	if cred.Handle.Empty() {
		cred.Handle = m.handle
	}
	if !m.part { // of one that an answer has made nothing but time comes of a handle, and it is stored with that or not at all
		b.kept.keep(l.ID, cred.Handle)
	}
	b.endInLedger(ctx, l)
	up, move := *l.Upstream, LeaseMove{ID: l.ID, Fence: 1, State: LeaseRevoking, At: now, By: self}
	if !cred.Token.Empty() { // there is one, and it says what it is
		r := weaker(promised(m.u.Provider), cred.Revocability)
		move.Class, up.Bound, up.DiesAt = r.Class, Seconds(r.Bound/time.Second), m.diesAt(cred)
	}
	up.NextAt, up.LastError = now, "The mint did not succeed."
	if sealed, err := b.cfg.Sealer.Seal(l.ID, cred.Handle); err == nil && !cred.Handle.Empty() {
		up.Handle = sealed
	}
	move.Upstream = up
	err := b.cfg.Journal.Append(ctx, Record{SettleLease: &move, Entries: []audit.Entry{m.undeliveredEntry(cause)}})
	if err == nil {
		if up.Handle != "" {
			b.kept.drop(l.ID)
		}
		if move.Class == provider.ClassTTLOnly && l.Class != move.Class {
			m.takeBack(cred) // the lane asks for nothing of this class; it may be worth something all the same
		}
		m.u.nudge()
		return undeliveredError(cause)
	}
	// Nobody else may know of it: the lane, which can have settled the intent before
	// the credential came into being, or a journal that is down.
	b.cfg.Logger.ErrorContext(ctx, "the end of a credential could not be recorded as owed; it is taken back now", "lease_id", l.ID, "error", err)
	gone := m.takeBack(cred)
	if errors.Is(err, ErrDone) {
		m.tooLate(ctx, cred, cause, gone)
	} else {
		b.oweLease(owedLease{lease: l, by: self})
	}
	return undeliveredError(cause)
}

// takeBack takes a credential that nobody got back now.
func (m *minting) takeBack(cred provider.Credential) (done bool) {
	ctx, stop := context.WithTimeout(context.Background(), callTime)
	defer stop()
	err := m.u.revoke(ctx, m.b.targetOf(m.lease, cred.Handle))
	if err != nil {
		m.b.cfg.Logger.ErrorContext(ctx, "a credential that nobody got could not be taken back yet", "lease_id", m.lease.ID, "error", err)
	}
	return err == nil
}

// undelivered is fall for a credential whose end is owed already.
func (m *minting) undelivered(ctx context.Context, cause error) error {
	m.b.endInLedger(ctx, m.lease)
	m.b.note(ctx, m.undeliveredEntry(cause))
	return undeliveredError(cause)
}

func (m *minting) undeliveredEntry(cause error) audit.Entry {
	return m.b.leaseEntry(audit.LeaseUndelivered, self, m.lease, map[string]string{"why": errorKind(cause)})
}

// endInLedger refuses a lease in the ledger. The task's end or the missing outcome
// in the journal refuses it too, so that a failure is only logged.
func (b *Broker) endInLedger(ctx context.Context, l Lease) {
	b.ended(l.ID, l.ExpiresAt)
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	if _, err := b.cfg.Ledger.EndLease(ctx, LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, b.now()); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "an undelivered lease could not be ended in the ledger", "lease_id", l.ID, "error", err)
	}
}

// leaseEntry drafts a line about a lease.
func (b *Broker) leaseEntry(kind, actor string, l Lease, data any) audit.Entry {
	e := b.taskEntry(kind, actor, l.TaskID, data)
	e.LeaseID, e.RequestID = l.ID, l.RequestID
	return e
}
