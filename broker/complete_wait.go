package broker

import (
	"context"
	"slices"
	"time"
)

// nudgeTask wakes the lanes that the end of a task has work for. Most tasks have
// none, and none of theirs is looked at.
func (b *Broker) nudgeTask(ctx context.Context, taskID string) error {
	if len(b.upstreams) == 0 {
		return nil
	}
	owed, err := b.owedOf(ctx, Task{ID: taskID})
	if err == nil && owed {
		for _, u := range b.upstreams {
			u.nudge()
		}
	}
	return err
}

// owedOf reports whether a credential of a closed task, or of what was delegated
// below it, is not yet known to be dead at its provider.
func (b *Broker) owedOf(ctx context.Context, t Task) (bool, error) {
	f := upstreamOf(t)
	f.State, f.Now, f.Page = LeaseRevoking, b.now(), Page{Limit: 1}
	ls, err := b.cfg.Journal.Leases(ctx, f)
	return len(ls) > 0, err
}

// waitRound is how often an end looks again by itself: other replicas work on the
// same credentials and ring no bell here. waitPause is the least between two looks.
const (
	waitRound = 500 * time.Millisecond
	waitPause = 25 * time.Millisecond
)

// awaitDead waits until nothing of a closed task is owed any more, and completes
// what its end is answered with. The end itself is durable: who does not wait for
// it loses nothing.
func (b *Broker) awaitDead(ctx context.Context, c Completion, wait time.Duration) (Completion, error) {
	if len(b.upstreams) == 0 {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(wait, 0)+closeTime)
	defer cancel()
	until := time.NewTimer(wait)
	defer until.Stop()
	// What the answer shows was read while lanes went on.
	waited := slices.ContainsFunc(c.Credentials, func(l Lease) bool { return l.State == LeaseRevoking })
	for {
		more, err := b.look(ctx, c.Task, until, wait > 0)
		if err != nil {
			return c, unavailable(err)
		}
		if !more {
			break
		}
		waited = true
	}
	return b.accounted(ctx, c, waited)
}

// look reports whether to look again: something is owed, and there is time.
func (b *Broker) look(ctx context.Context, t Task, until *time.Timer, waits bool) (bool, error) {
	rung, forget := b.rang.hear(t.ID) // what is delegated below is found by looking
	defer forget()
	owed, err := b.owedOf(ctx, t)
	if err != nil || !owed || !waits {
		return false, err
	}
	return pause(ctx, rung, until), nil
}

// pause waits for the next look; false means that there is none.
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

// accounted fills in how the credentials at third parties ended.
func (b *Broker) accounted(ctx context.Context, c Completion, changed bool) (Completion, error) {
	var err error
	if changed {
		if c.Credentials, err = b.shown(ctx, c.Task.ID); err != nil {
			return c, unavailable(err)
		}
	}
	r, err := b.receiptOf(ctx, c.Task)
	if err != nil {
		return c, unavailable(err)
	}
	c.Owed = r.States[string(LeaseRevoking)]
	if r.Total > 0 {
		if c.Receipt, err = b.signReceipt(r); err != nil { // the end is true all the same, and the receipt can be had later
			b.cfg.Logger.WarnContext(ctx, "the receipt of a task that is closed could not be signed yet", "task_id", c.Task.ID, "error", err)
		}
	}
	return c, nil
}
