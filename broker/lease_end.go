package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// RevokeLease ends one credential.
func (b *Broker) RevokeLease(ctx context.Context, who Principal, id, reason string) (Lease, error) {
	if utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return Lease{}, E(Invalid, "reason must be at most 500 printable characters.", nil)
	}
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	l, err := b.leaseFor(look, who, doubtful, id)
	if err != nil && AsError(err).Kind == Unavailable && who.Has(RoleOperator) {
		return Lease{}, b.endUnknown(id, who.ID, reason, err)
	}
	if err != nil {
		return Lease{}, err
	}
	limit := endTime
	if who.doubt != nil {
		limit = soon
	}
	return b.endLeaseIn(ctx, limit, l, who.ID, reason)
}

// endLease refuses a credential from now on: here and in the ledger first, then
// on the record. Ending what is dead already is no error, and finishes an earlier
// end that a store had not taken. What fails is owed.
func (b *Broker) endLease(ctx context.Context, l Lease, by, reason string) (Lease, error) {
	return b.endLeaseIn(ctx, endTime, l, by, reason)
}

// endLeaseIn is endLease that tries for so long.
func (b *Broker) endLeaseIn(ctx context.Context, limit time.Duration, l Lease, by, reason string) (Lease, error) {
	ended, dead := l.State == LeaseRevoked || l.State == LeaseRevoking, LeaseRevoked
	if l.Upstream != nil {
		dead = LeaseRevoking // here; that it is there is the lane's to say
	}
	if l.Cause != "" || !b.now().Before(l.ExpiresAt) || !ended && l.State != LeaseLive && l.State != LeaseIntent {
		b.paidLease(l.ID)
		return l, nil // dead with its task, or by itself
	}
	if l.TaskID == "" { // it was ended while nobody could say whose it is
		ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{IDs: []string{l.ID}, Now: b.now()})
		if err != nil {
			return l, unavailable(err)
		}
		if len(ls) == 0 {
			b.paidLease(l.ID)
			return l, nil
		}
		return b.endLease(ctx, ls[0], by, reason)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	now := b.now()
	b.endedInUse(l.TaskID, l.ID, l.ExpiresAt)
	live := LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}
	endLedger := func() error {
		ctx, cancel := context.WithTimeout(ctx, ledgerTime)
		defer cancel()
		_, err := b.cfg.Ledger.EndLease(ctx, live, now)
		return err
	}
	lerr := endLedger()
	var jerr error
	if !ended {
		e := b.taskEntry(audit.LeaseRevoked, by, l.TaskID, map[string]string{"reason": reason})
		e.LeaseID = l.ID
		rec := Record{EndLease: &LeaseEnd{ID: l.ID, State: dead, By: by, At: now}, Entries: []audit.Entry{e}}
		if l.TaskID == l.ID { // a token for the API is no lease
			rec.EndLease, rec.Entries[0].TaskID = nil, ""
		}
		jerr = b.cfg.Journal.Append(ctx, rec)
		if errors.Is(jerr, ErrDone) || errors.Is(jerr, ErrNotFound) {
			jerr = nil // ended before, or signed and never recorded: nobody has it
		}
	}
	if lerr == nil && jerr == nil { // once more, as in tryClose
		lerr = errors.Join(endLedger(), b.endNarrowed(ctx, l, now))
	}
	if err := errors.Join(lerr, jerr); err != nil {
		p := &progress{}
		p.ledger.Store(lerr == nil)
		p.journal.Store(jerr == nil)
		return l, b.leaseStillOwed(owedLease{l, by, reason}, p, err)
	}
	b.paidLease(l.ID)
	if !ended {
		l.State, l.RevokedAt, l.RevokedBy = dead, now, by
	}
	b.nudge(l.Provider)
	return l, nil
}

// endTime bounds one attempt at the end of a credential.
const endTime = 10 * time.Second

func (b *Broker) leaseStillOwed(o owedLease, p *progress, cause error) error {
	r := p.reached(b.oweLease(o))
	return &Error{Kind: Unavailable, Cause: cause, RetryAfter: 2 * time.Second, Reached: r,
		Public: "The revocation could not be recorded everywhere yet. The token is refused here, and the broker goes on trying. " + r.sentence() + " Ask again to confirm."}
}

// endUnknown refuses a credential here of which no journal says whose it is: an operator
// may end any. The rest is done once the journal answers.
func (b *Broker) endUnknown(id, by, reason string, cause error) error {
	until := b.remember()
	b.ended(id, until)
	return b.leaseStillOwed(owedLease{Lease{ID: id, ExpiresAt: until, State: LeaseLive}, by, reason}, &progress{}, cause)
}

// endNarrowed tells the ledger, and so the feed, of the ends that follow from the
// end of l: of what was narrowed from it, at any depth. Whatever is minted later
// finds l dead and is never delivered. A token names what it was narrowed from, so
// that until this is done introspection refuses it all the same.
func (b *Broker) endNarrowed(ctx context.Context, l Lease, now time.Time) error {
	level := []string{l.ID}
	for depth := 0; len(level) > 0 && depth < maxLineage && l.TaskID != l.ID; depth++ {
		var mu sync.Mutex
		var next []string
		for parents := range slices.Chunk(level, refillPage) {
			_, err := b.eachLease(ctx, LeaseFilter{Parents: parents}, func(c Lease) error {
				mu.Lock()
				next = append(next, c.ID)
				mu.Unlock()
				if !c.ExpiresAt.After(now) {
					return nil
				}
				if c.Upstream != nil { // nothing follows at a third party by itself
					_, err := b.endLease(ctx, c, self, "part of what was ended")
					return err
				}
				b.endedInUse(c.TaskID, c.ID, c.ExpiresAt)
				_, err := b.cfg.Ledger.EndLease(ctx, LiveLease{ID: c.ID, TaskID: c.TaskID, ExpiresAt: c.ExpiresAt}, now)
				return err
			})
			if err != nil {
				return err
			}
		}
		level = next
	}
	return nil
}
