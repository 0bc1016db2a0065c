package broker

import (
	"context"
	"errors"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
)

// undelivered ends a lease whose token nobody got.
func (b *Broker) undelivered(ctx context.Context, l Lease, cause error) error {
	// Whatever made it late must not make its end late too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	e := b.leaseEntry(audit.LeaseUndelivered, self, l, map[string]string{"why": errorKind(cause)})
	if err := b.cfg.Journal.Append(ctx, Record{
		EndLease: &LeaseEnd{ID: l.ID, State: LeaseRevoked, By: self, At: b.now()}, Entries: []audit.Entry{e},
	}); err != nil && !errors.Is(err, ErrDone) {
		b.cfg.Logger.ErrorContext(ctx, "an undelivered lease stays on the record as live until it expires", "lease_id", l.ID, "error", err)
	}
	b.endInLedger(ctx, l)
	return undeliveredError(cause)
}

// undeliveredError says why nothing was issued.
func undeliveredError(cause error) error {
	e, known := errors.AsType[*Error](cause)
	switch {
	case known:
		return e
	case cause == nil, errors.Is(cause, ErrTaskClosed), errors.Is(cause, ErrNotFound):
		return completedMeanwhile(cause)
	case errors.Is(cause, ErrDone):
		return E(InvalidGrant, "The token to be narrowed was revoked meanwhile. Nothing was issued.", cause)
	case errors.Is(cause, ErrTaskPaused):
		return E(Denied, "The task is paused. Nothing mints until its runner resumes it.", cause)
	case errors.Is(cause, ErrOwnerCap):
		return &Error{Kind: TooMany, Public: "The owner of the task holds as many credentials as it may, over all of its tasks. Complete one, revoke some or wait for some to expire.", Cause: cause, RetryAfter: 10 * time.Second}
	case errors.Is(cause, ErrCap):
		return &Error{Kind: TooMany, Public: "The task holds as many credentials as it may. Revoke one or wait for one to expire.", Cause: cause, RetryAfter: 10 * time.Second}
	default:
		return unavailable(cause)
	}
}

func completedMeanwhile(cause error) *Error {
	return E(InvalidGrant, "The task was completed meanwhile. Nothing was issued.", cause)
}

// errorKind names a cause for the record, which must not hold internals.
func errorKind(err error) string {
	for _, s := range []error{ErrTaskClosed, ErrTaskPaused, ErrCap, ErrOwnerCap, ErrNotFound, ErrDone, provider.ErrRefused, errWider, errWeaker, ErrLost} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	if _, busy := errors.AsType[*provider.BusyError](err); busy {
		return "the provider limits the rate"
	}
	return "a store or the provider is unavailable"
}
