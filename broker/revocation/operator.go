package revocation

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// RetryLease makes the next attempt to revoke a credential due now.
func (q *Queue) RetryLease(ctx context.Context, who broker.Principal, id string) (broker.Lease, error) {
	l, err := q.leaseEnd(ctx, who, id)
	if err != nil {
		return broker.Lease{}, err
	}
	e := q.upstream.LeaseEntry(audit.LeaseRetried, who.ID, l, nil)
	l.Upstream.NextAt = q.clock.Sure()
	if err := q.operate(ctx, broker.LeaseEnd{ID: id, State: broker.LeaseRevoking, By: who.ID, At: l.Upstream.NextAt}, e); err != nil {
		return broker.Lease{}, err
	}
	q.nudge(l.Provider)
	return l, nil
}

// ForceLease ends a pending revocation on a person's statement. The provider is not asked any
// more, and the lease does not claim that the credential is refused there.
func (q *Queue) ForceLease(ctx context.Context, who broker.Principal, id, reason string) (broker.Lease, error) {
	if reason == "" || utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return broker.Lease{}, broker.E(broker.Invalid, "reason must be 1 to 500 printable characters: say how you know that the provider refuses the credential.", nil)
	}
	l, err := q.leaseEnd(ctx, who, id)
	if err != nil {
		return broker.Lease{}, err
	}
	now := q.clock.Sure()
	e := q.upstream.LeaseEntry(audit.LeaseForced, who.ID, l, map[string]any{"reason": reason, "attempts": l.Upstream.Attempts, "last_error": l.Upstream.LastError})
	if err := q.operate(ctx, broker.LeaseEnd{ID: id, State: broker.LeaseUnconfirmed, By: who.ID, At: now}, e); err != nil {
		return broker.Lease{}, err
	}
	q.kept.Drop(id)
	q.rang.Ring(l.TaskID)
	return q.listings.LeaseFor(ctx, who, broker.Certain, id)
}

// leaseEnd returns a lease with a pending revocation, for an operator.
func (q *Queue) leaseEnd(ctx context.Context, who broker.Principal, id string) (broker.Lease, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleOperator); err != nil {
		return broker.Lease{}, err
	}
	l, err := q.listings.LeaseFor(ctx, who, broker.Doubtful, id)
	switch {
	case err != nil:
		return broker.Lease{}, err
	case l.Upstream == nil:
		return broker.Lease{}, broker.E(broker.Conflict, "This credential is one of the broker's own tokens: it is refused as soon as it is revoked.", nil)
	case l.State == broker.LeaseLive:
		return broker.Lease{}, broker.E(broker.Conflict, "The credential is live. Revoke it first.", nil)
	case l.State == broker.LeaseIntent:
		return broker.Lease{}, broker.E(broker.Conflict, "The credential is being minted. Revoke it first, or wait a minute.", nil)
	case l.State != broker.LeaseRevoking:
		return broker.Lease{}, broker.E(broker.Conflict, "This credential has no pending revocation.", broker.ErrDone)
	}
	return l, nil
}

func (q *Queue) operate(ctx context.Context, end broker.LeaseEnd, e audit.Entry) error {
	err := q.store.Append(ctx, broker.Record{EndLease: &end, Entries: []audit.Entry{e}})
	if errors.Is(err, broker.ErrDone) {
		return broker.E(broker.Conflict, "This credential has no pending revocation.", err)
	}
	if err != nil {
		return broker.StoreError(err)
	}
	return nil
}

// nudge wakes the queue's worker for a provider, if it is a third party.
func (q *Queue) nudge(name string) {
	if u := q.upstreams[name]; u != nil {
		u.Nudge()
	}
}

const (
	resealRound = time.Minute
	resealPage  = 100
)

// reseal seals everything again that an earlier key sealed, so that the earlier key can be
// removed.
func (q *Queue) reseal(ctx context.Context) {
	if q.safe != nil {
		if err := q.safe.Reseal(ctx); err != nil && ctx.Err() == nil {
			q.logger.WarnContext(ctx, "secrets sealed by an earlier key could not be sealed again", "error", err)
		}
	}
	q.resealHandles(ctx)
}

// resealHandles skips handles that cannot be opened: the revocation queue reports those.
func (q *Queue) resealHandles(ctx context.Context) {
	key := q.sealer.KeyID()
	if key == "" {
		return
	}
	for after := ""; ctx.Err() == nil; {
		look, cancel := context.WithTimeout(ctx, broker.FailTime)
		ls, err := q.store.Sealed(look, key, after, resealPage)
		cancel()
		if err != nil {
			q.logger.WarnContext(ctx, "handles sealed by an earlier key could not be read", "error", err)
			return
		}
		for _, l := range ls {
			if err := q.resealOne(ctx, l); err != nil && !errors.Is(err, broker.ErrDone) {
				q.logger.WarnContext(ctx, "a handle could not be sealed again", "lease_id", l.ID, "error", err)
			}
		}
		if len(ls) < resealPage {
			return
		}
		after = ls[len(ls)-1].ID
	}
}

func (q *Queue) resealOne(ctx context.Context, l broker.Lease) error {
	handle, err := q.sealer.Open(l.ID, l.Upstream.Handle)
	if err != nil {
		return err
	}
	sealed, err := q.sealer.Seal(l.ID, handle)
	if err != nil {
		return err
	}
	return q.store.Append(ctx, broker.Record{ResealLease: &broker.LeaseSeal{ID: l.ID, From: l.Upstream.Handle, To: sealed}})
}
