package revocation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// RevokeLease ends one credential.
func (rv *Revocations) RevokeLease(ctx context.Context, who broker.Principal, id, reason string) (broker.Lease, error) {
	if utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return broker.Lease{}, broker.E(broker.Invalid, "reason must be at most 500 printable characters.", nil)
	}
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	l, err := rv.listings.LeaseFor(look, who, broker.Doubtful, id)
	if err != nil && broker.AsError(err).Kind == broker.Unavailable && who.Has(broker.RoleOperator) {
		return broker.Lease{}, rv.endUnknown(id, who.ID, reason, err)
	}
	if err != nil {
		return broker.Lease{}, err
	}
	limit := endTime
	if who.Doubt != nil {
		limit = soon
	}
	return rv.endLeaseIn(ctx, limit, l, who.ID, reason)
}

// EndLease refuses a credential from now on: in this process and the live store first, then in
// the database. Ending an ended credential is no error, and finishes an earlier end that a
// store had not accepted. A step that fails stays pending.
func (rv *Revocations) EndLease(ctx context.Context, l broker.Lease, by, reason string) (broker.Lease, error) {
	return rv.endLeaseIn(ctx, endTime, l, by, reason)
}

// endLeaseIn is EndLease with a time limit.
func (rv *Revocations) endLeaseIn(ctx context.Context, limit time.Duration, l broker.Lease, by, reason string) (broker.Lease, error) {
	ended, dead := l.State == broker.LeaseRevoked || l.State == broker.LeaseRevoking, broker.LeaseRevoked
	if l.Upstream != nil {
		dead = broker.LeaseRevoking // refused here; the revocation queue settles it at the provider
	}
	if l.Cause != "" || !rv.clock.Now().Before(l.ExpiresAt) || !ended && l.State != broker.LeaseLive && l.State != broker.LeaseIntent {
		rv.pending.paidLease(l.ID)
		return l, nil // ended with its task, or expired
	}
	if l.TaskID == "" { // it was ended while the database did not answer
		ls, err := rv.store.Leases(ctx, broker.LeaseFilter{IDs: []string{l.ID}, Now: rv.clock.Now()})
		if err != nil {
			return l, broker.StoreError(err)
		}
		if len(ls) == 0 {
			rv.pending.paidLease(l.ID)
			return l, nil
		}
		return rv.EndLease(ctx, ls[0], by, reason)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	now := rv.clock.Now()
	rv.feed.endedInUse(l.TaskID, l.ID, l.ExpiresAt)
	live := broker.LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}
	endLiveStore := func() error {
		ctx, cancel := context.WithTimeout(ctx, kernel.LiveStoreTime)
		defer cancel()
		_, err := rv.liveStore.EndLease(ctx, live, now)
		return err
	}
	lerr := endLiveStore()
	var jerr error
	if !ended {
		e := rv.log.TaskEntry(audit.LeaseRevoked, by, l.TaskID, map[string]string{"reason": reason})
		e.LeaseID = l.ID
		rec := broker.Record{EndLease: &broker.LeaseEnd{ID: l.ID, State: dead, By: by, At: now}, Entries: []audit.Entry{e}}
		if l.TaskID == l.ID { // a token for the API has no lease
			rec.EndLease, rec.Entries[0].TaskID = nil, ""
		}
		jerr = rv.store.Append(ctx, rec)
		if errors.Is(jerr, broker.ErrDone) || errors.Is(jerr, broker.ErrNotFound) {
			jerr = nil // ended before, or signed but never recorded and so never returned
		}
	}
	if lerr == nil && jerr == nil { // once more, as in tryClose
		lerr = errors.Join(endLiveStore(), rv.endNarrowed(ctx, l, now))
	}
	if err := errors.Join(lerr, jerr); err != nil {
		p := &kernel.Progress{}
		p.LiveStore.Store(lerr == nil)
		p.Store.Store(jerr == nil)
		return l, rv.leaseEndPending(kernel.PendingLease{Lease: l, By: by, Reason: reason}, p, err)
	}
	rv.pending.paidLease(l.ID)
	if !ended {
		l.State, l.RevokedAt, l.RevokedBy = dead, now, by
	}
	rv.queue.nudge(l.Provider)
	return l, nil
}

// endTime bounds one attempt to end a credential.
const endTime = 10 * time.Second

func (rv *Revocations) leaseEndPending(o kernel.PendingLease, p *kernel.Progress, cause error) error {
	r := p.Reached(rv.pending.KeepLeaseEnd(o))
	return &broker.Error{Kind: broker.Unavailable, Cause: cause, RetryAfter: 2 * time.Second, Reached: r,
		Public: "The revocation could not be recorded everywhere yet. The token is refused here, and the broker keeps trying. " + r.Sentence() + " Repeat the call to confirm."}
}

// endUnknown refuses a credential here while the database cannot name its owner: an operator
// may end any credential. The rest is done once the database answers.
func (rv *Revocations) endUnknown(id, by, reason string, cause error) error {
	until := rv.clock.Remember()
	rv.feed.Ended(id, until)
	return rv.leaseEndPending(kernel.PendingLease{Lease: broker.Lease{ID: id, ExpiresAt: until, State: broker.LeaseLive}, By: by, Reason: reason}, &kernel.Progress{}, cause)
}

// endNarrowed ends, in the live store and the feed, all leases narrowed from l, at any depth. A
// mint that is still running finds l ended and is not delivered. Until endNarrowed is done
// introspection refuses those tokens too, because a token names its parents.
func (rv *Revocations) endNarrowed(ctx context.Context, l broker.Lease, now time.Time) error {
	level := []string{l.ID}
	for depth := 0; len(level) > 0 && depth < kernel.MaxLineage && l.TaskID != l.ID; depth++ {
		var mu sync.Mutex
		var next []string
		for parents := range slices.Chunk(level, kernel.RefillPage) {
			_, err := kernel.EachLease(ctx, rv.store, broker.LeaseFilter{Now: rv.clock.Now(), Parents: parents}, func(c broker.Lease) error {
				mu.Lock()
				next = append(next, c.ID)
				mu.Unlock()
				if !c.ExpiresAt.After(now) {
					return nil
				}
				if c.Upstream != nil { // a third party does not know of the parent's end
					_, err := rv.EndLease(ctx, c, kernel.Self, "part of an ended credential")
					return err
				}
				rv.feed.endedInUse(c.TaskID, c.ID, c.ExpiresAt)
				_, err := rv.liveStore.EndLease(ctx, broker.LiveLease{ID: c.ID, TaskID: c.TaskID, ExpiresAt: c.ExpiresAt}, now)
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
