package broker

import (
	"context"
	"errors"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
)

const (
	// orphanMemory is how long an orphan that was taken back is remembered, so that
	// nobody counts it again: by replicas that found it at the same moment, and here
	// when the provider goes on listing it.
	orphanMemory = 24 * time.Hour
	// orphanLines bounds how many orphans of one search are logged one by one. The
	// record has all.
	orphanLines = 20
)

// end takes an orphan back. l is its record, with an id alone when there is none. An
// error means that the provider is not to be asked now.
func (s *sweeping) end(ctx context.Context, t provider.Target, l Lease) error {
	b, u := s.b, s.u
	recorded := l.ID != ""
	l.ID = t.LeaseID
	target := b.targetOf(l, t.Handle)
	err := b.call(ctx, u, func(ctx context.Context) error { return u.revoke(ctx, target) })
	if errors.Is(err, errNotToday) {
		return err
	}
	before, again := u.orphans.Get(l.ID)
	switch {
	case err != nil:
		s.leave(err)
		b.cfg.Logger.WarnContext(ctx, "an orphan could not be taken back yet", "provider", u.name, "lease_id", l.ID, "error", err)
	case !again:
		u.orphans.Add(l.ID, b.now())
		if b.firstOf(ctx, l.ID) {
			s.tell(ctx, l, recorded)
		}
	case b.now().After(before.Add(u.traits.Revocability.Bound)) && before.Before(s.began):
		s.leave(errStands)
		b.cfg.Logger.ErrorContext(ctx, "an orphan is still there after it was revoked", "provider", u.name, "lease_id", l.ID, "revoked_at", before)
	}
	return nil
}

func (s *sweeping) leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left++
	s.err = err
}

// tell counts an orphan of this search and puts it on the record.
func (s *sweeping) tell(ctx context.Context, l Lease, recorded bool) {
	s.mu.Lock()
	s.orphans++
	loud := s.orphans <= orphanLines
	s.mu.Unlock()
	s.b.tellOrphan(ctx, s.u, l, recorded, loud)
}

// firstOf reports whether no other replica has told of this orphan. When nobody can
// say, it is told: rather twice than not at all.
func (b *Broker) firstOf(ctx context.Context, leaseID string) bool {
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	_, err := b.cfg.Ledger.Admit(ctx, Admission{Claims: []Claim{{Key: "orphan:" + leaseID, Value: self, Until: b.now().Add(orphanMemory)}}})
	return !errors.Is(err, ErrClaimed)
}

// tellOrphan counts an orphan and puts it on the record, with what was claimed of it
// until then. A record in a final state is not rewritten: this entry is what corrects it.
func (b *Broker) tellOrphan(ctx context.Context, u *upstream, l Lease, recorded, loud bool) {
	made, _ := madeAt(leasePrefix, l.ID)
	facts := map[string]any{"provider": u.name, "revocability": u.traits.Revocability.Class, "recorded": recorded, "made_at": made}
	if recorded {
		facts["state"], facts["refused_since"] = l.State, l.RevokedAt
		if l.Upstream != nil {
			facts["proof"], facts["dead_at"] = l.Upstream.Proof, l.Upstream.DeadAt
		}
	}
	u.logged.orphan()
	if loud {
		b.cfg.Logger.WarnContext(ctx, "an orphan was taken back at a provider", "lease_id", l.ID, "facts", facts)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTime)
	defer cancel()
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{b.leaseEntry(audit.OrphanRevoked, self, l, facts)}}); err != nil {
		b.cfg.Logger.ErrorContext(ctx, "an orphan that was taken back is not on the record", "lease_id", l.ID, "facts", facts, "error", err)
	}
}
