package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"ebb/broker/audit"
)

// refill makes the ledger complete from the journal: ends first, because
// forgetting an end is the one loss that could let something live. It only ever
// adds, so that replicas may refill the same ledger at the same time.
func (b *Broker) refill(ctx context.Context) error {
	b.down.Store(true)
	now := b.now()
	if err := b.cfg.Ledger.Check(ctx); errors.Is(err, ErrLost) {
		if err := errors.Join(b.forget(ctx, now), b.refillEvidence(ctx, now)); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	closed, err := b.refillClosed(ctx, now)
	if err != nil {
		return err
	}
	if err := b.refillAPI(ctx, now); err != nil {
		return err
	}
	ended, err := b.refillEnded(ctx, now, closed)
	if err != nil {
		return err
	}
	open, err := b.refillOpen(ctx, now)
	if err != nil {
		return err
	}
	if err := b.refillSuspects(ctx, now); err != nil {
		return err
	}
	live, err := b.eachLease(ctx, LeaseFilter{State: LeaseLive}, func(l Lease) error {
		err := b.cfg.Ledger.PutLease(ctx, LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, LeaseLimits{}, true)
		if errors.Is(err, ErrDone) || errors.Is(err, ErrTaskClosed) {
			return nil // ended meanwhile: the ledger knows better
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := b.cfg.Ledger.Mark(ctx); err != nil {
		return err
	}
	b.down.Store(b.lacks() != nil)
	b.m.refills.Inc()
	return b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{b.entry(audit.LedgerRefilled, self, map[string]int{
		"open_tasks": open, "closed_tasks": len(closed), "live_leases": live, "ended_leases": ended,
	})}})
}

// refillClosed repeats every end that a token could have outlived.
func (b *Broker) refillClosed(ctx context.Context, now time.Time) (map[string]bool, error) {
	var mu sync.Mutex
	closed := map[string]bool{}
	_, err := b.eachTask(ctx, TaskFilter{State: TaskClosed, ClosedFrom: now.Add(-b.cfg.Limits.MaxTTL)}, func(t Task) error {
		mu.Lock()
		closed[t.ID] = true
		mu.Unlock()
		_, _, err := b.cfg.Ledger.SetState(ctx, t.ID, TaskClosed, t.ClosedAt, b.remember())
		return err
	})
	return closed, err
}

// refillEnded refuses again what was refused before its time, whether or not it is
// dead at its provider.
func (b *Broker) refillEnded(ctx context.Context, now time.Time, closed map[string]bool) (int, error) {
	sum := 0
	for _, state := range []LeaseState{LeaseRevoked, LeaseRevoking, LeaseUnconfirmed} {
		n, err := b.eachLease(ctx, LeaseFilter{State: state, From: now.Add(-b.cfg.Limits.MaxTTL)}, func(l Lease) error {
			if closed[l.TaskID] || !l.ExpiresAt.After(now) {
				return nil
			}
			_, err := b.cfg.Ledger.EndLease(ctx, LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, now)
			return err
		})
		sum += n
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// ledgerOnly is why a task ends that the ledger knows as closed and the journal
// does not. Another replica may be about to say why, so payOwed gives it time.
const ledgerOnly = "end recorded in the ledger only"

// lossAccepted is why a task ends that was opened before a loss of the database was accepted: its end may
// be among what was lost.
const lossAccepted = "opened before a loss of the database that an operator accepted"

// refillOpen puts back open tasks with their records. A task that the ledger
// knows as closed while the journal does not was ended in the moment of a crash:
// the end stands.
func (b *Broker) refillOpen(ctx context.Context, now time.Time) (int, error) {
	records, err := b.records(ctx, now)
	if err != nil {
		return 0, err
	}
	return b.eachTask(ctx, TaskFilter{Open: true}, func(t Task) error {
		l := records[t.ID]
		l.Task, l.Due = t, t.due(now)
		if err := b.cfg.Ledger.PutTask(ctx, l, b.keep(t)); err != nil {
			return err
		}
		live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: t.ID, Refill: true})
		if err != nil {
			return err
		}
		if t.OpenedAt.Before(b.tombs.before) {
			b.owe(TaskMove{ID: t.ID, State: TaskClosed, Cause: CauseStopped, By: self, Reason: lossAccepted, At: now})
		}
		if live.State == TaskClosed {
			b.owe(TaskMove{ID: t.ID, State: TaskClosed, Cause: CauseCompleted, By: self, Reason: ledgerOnly, At: now})
		}
		return nil
	})
}

// forget notes that the ledger lost the proofs it had seen, if there was ever
// anybody to use one: an empty journal has no past.
func (b *Broker) forget(ctx context.Context, now time.Time) error {
	heads, err := b.cfg.Journal.Heads(ctx)
	if err == nil && len(heads) > 0 {
		b.since.Store(now.Unix())
	}
	return err
}
