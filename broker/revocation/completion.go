package revocation

import (
	"context"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// nudgeTask wakes the queue's workers if the task has pending revocations. Most tasks have
// none.
func (rv *Revocations) nudgeTask(ctx context.Context, taskID string) error {
	if len(rv.upstreams) == 0 {
		return nil
	}
	pending, err := rv.hasPending(ctx, broker.Task{ID: taskID})
	if err == nil && pending {
		for _, u := range rv.upstreams {
			u.Nudge()
		}
	}
	return err
}

// hasPending reports whether a credential of a closed task, or of a task delegated below it, has a
// pending revocation.
func (rv *Revocations) hasPending(ctx context.Context, t broker.Task) (bool, error) {
	f := broker.UpstreamOf(t)
	f.State, f.Now, f.Page = broker.LeaseRevoking, rv.clock.Now(), broker.Page{Limit: 1}
	ls, err := rv.store.Leases(ctx, f)
	return len(ls) > 0, err
}

// waitRound is the polling interval of an end that waits: other replicas work on the same
// credentials and do not notify this process. waitPause is the shortest time between two reads.
const (
	waitRound = 500 * time.Millisecond
	waitPause = 25 * time.Millisecond
)

// awaitDead waits until a closed task has no pending revocation, and completes the response to
// its end. The end itself is durable: a caller that does not wait loses nothing.
func (rv *Revocations) awaitDead(ctx context.Context, c broker.Completion, wait time.Duration) (broker.Completion, error) {
	if len(rv.upstreams) == 0 {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(wait, 0)+closeTime)
	defer cancel()
	until := time.NewTimer(wait)
	defer until.Stop()
	// The credentials were read while the queue's workers went on.
	waited := slices.ContainsFunc(c.Credentials, func(l broker.Lease) bool { return l.State == broker.LeaseRevoking })
	for {
		more, err := rv.look(ctx, c.Task, until, wait > 0)
		if err != nil {
			return c, broker.StoreError(err)
		}
		if !more {
			break
		}
		waited = true
	}
	return rv.accounted(ctx, c, waited)
}

// look reports whether to look again: a revocation is pending, and there is time left.
func (rv *Revocations) look(ctx context.Context, t broker.Task, until *time.Timer, waits bool) (bool, error) {
	rung, forget := rv.rang.Hear(t.ID) // delegated tasks do not notify: they are found by polling
	defer forget()
	pending, err := rv.hasPending(ctx, t)
	if err != nil || !pending || !waits {
		return false, err
	}
	return pause(ctx, rung, until), nil
}

// pause waits for the next read; false means that the time is up.
func pause(ctx context.Context, bell <-chan struct{}, until *time.Timer) bool {
	least, most := time.NewTimer(waitPause), time.NewTimer(waitRound)
	defer least.Stop()
	defer most.Stop()
	select {
	case <-bell:
	case <-most.C:
		return true
	case <-until.C:
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case <-least.C:
		return true
	case <-until.C:
		return false
	case <-ctx.Done():
		return false
	}
}

// accounted adds the outcome of the credentials at third parties.
func (rv *Revocations) accounted(ctx context.Context, c broker.Completion, changed bool) (broker.Completion, error) {
	var err error
	if changed {
		if c.Credentials, err = rv.shown(ctx, c.Task.ID); err != nil {
			return c, broker.StoreError(err)
		}
	}
	r, err := rv.queue.receiptOf(ctx, c.Task)
	if err != nil {
		return c, broker.StoreError(err)
	}
	c.PendingRevocations = r.States[string(broker.LeaseRevoking)]
	if r.Total > 0 {
		if c.Receipt, err = rv.queue.signReceipt(r); err != nil { // the end holds without it, and the receipt can be fetched later
			rv.logger.WarnContext(ctx, "the receipt of a closed task could not be signed yet", "task_id", c.Task.ID, "error", err)
		}
	}
	return c, nil
}
