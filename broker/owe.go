package broker

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
)

// maxOwedOpen bounds the tasks that were never handed out among the owed ends: a
// journal that is down must not let runners fill the memory.
const maxOwedOpen = 10_000

// owe remembers an end that a store has not taken yet; payOwed tries again. Until
// then the task is refused here.
//
// What a person or a runner asked for is noted in the file of pending ends first, and
// kept is whether it was: an end by time comes again by itself.
func (b *Broker) owe(m TaskMove) (kept bool) {
	b.ended(m.ID, b.remember())
	b.owedMu.Lock()
	defer b.owedMu.Unlock()
	_, known := b.owed[m.ID]
	if !known && (m.Reason != neverHandedOut || len(b.owed) < maxOwedOpen) {
		b.owed[m.ID] = m
	}
	b.showOwed()
	if m.By == self || b.keptEnds[m.ID] {
		return b.keptEnds[m.ID]
	}
	b.keptEnds[m.ID] = b.keepEnd(pendingEnd{Task: &m})
	return b.keptEnds[m.ID]
}

func (b *Broker) paid(taskID string) {
	b.owedMu.Lock()
	defer b.owedMu.Unlock()
	delete(b.owed, taskID)
	b.settled()
}

// settled is called when an end is no longer owed.
func (b *Broker) settled() {
	b.showOwed()
	if len(b.owed)+len(b.owedLeases) > 0 {
		return
	}
	clear(b.keptEnds)
	if err := b.endsFile.clear(); err != nil {
		b.cfg.Logger.Warn("the file of pending ends could not be emptied: what is in it is recorded, and done again at the next start", "error", err)
	}
}

// owedLease is the end of a credential that a store has not taken yet.
type owedLease struct {
	lease      Lease
	by, reason string
}

func (b *Broker) oweLease(o owedLease) (kept bool) {
	b.owedMu.Lock()
	defer b.owedMu.Unlock()
	b.owedLeases[o.lease.ID] = o
	b.showOwed()
	if l := o.lease; o.by != self && !b.keptEnds[l.ID] {
		b.keptEnds[l.ID] = b.keepEnd(pendingEnd{Lease: &pendingLease{l.ID, l.TaskID, l.ExpiresAt, o.by, o.reason}})
	}
	return b.keptEnds[o.lease.ID]
}

func (b *Broker) paidLease(id string) {
	b.owedMu.Lock()
	defer b.owedMu.Unlock()
	delete(b.owedLeases, id)
	b.settled()
}

func (b *Broker) showOwed() { b.m.owed.Set(float64(len(b.owed) + len(b.owedLeases))) }

func (b *Broker) payOwed(ctx context.Context) {
	b.owedMu.Lock()
	tasks, leases := slices.Collect(maps.Values(b.owed)), slices.Collect(maps.Values(b.owedLeases))
	b.owedMu.Unlock()
	var g errgroup.Group
	g.SetLimit(64)
	for _, m := range tasks {
		g.Go(func() error {
			if ctx.Err() != nil || m.Reason == ledgerOnly && b.now().Sub(m.At) < 2*closeTime {
				return nil
			}
			if _, err := b.close(ctx, m.ID, m); err != nil {
				b.cfg.Logger.WarnContext(ctx, "the end of a task is still owed", "task_id", m.ID, "error", err)
			}
			return nil
		})
	}
	for _, o := range leases {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			if _, err := b.endLease(ctx, o.lease, o.by, o.reason); err != nil {
				b.cfg.Logger.WarnContext(ctx, "the end of a credential is still owed", "lease_id", o.lease.ID, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait()
}
