package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/attest/jose"
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
		err := b.cfg.Ledger.PutLease(ctx, LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, 0, true)
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
	b.down.Store(false)
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
		live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: t.ID})
		if err != nil {
			return err
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

// refillEvidence ties evidence to the keys again that a person logged in with or a
// sandbox was bound by, as far as it is still valid.
func (b *Broker) refillEvidence(ctx context.Context, now time.Time) error {
	for _, kind := range []string{audit.PrincipalAuthenticated, audit.SandboxEnrolled} {
		for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: kind, From: now.Add(-jose.DefaultMaxLifetime)}) {
			if err != nil {
				return err
			}
			var data struct {
				Evidence *usedEvidence `json:"evidence"`
			}
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
			}
			if data.Evidence == nil || !data.Evidence.Until.After(now) {
				continue
			}
			_, err = b.cfg.Ledger.Admit(ctx, Admission{Claims: []Claim{{
				Key: data.Evidence.Key, Value: data.Evidence.JKT, Until: data.Evidence.Until, Again: true,
			}}})
			if err != nil && !errors.Is(err, ErrClaimed) {
				return err
			}
		}
	}
	return nil
}

// refillSuspects finishes what a process that died between an approver's verdict
// "suspicious" and the end of the task left undone.
func (b *Broker) refillSuspects(ctx context.Context, now time.Time) error {
	f := RequestFilter{State: RequestDenied, Since: now.Add(-b.cfg.Limits.MaxTaskTTL), Page: Page{Limit: 1000}}
	for {
		rs, err := b.cfg.Desk.Requests(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range rs {
			if r.Code != Suspicious {
				continue
			}
			m := suspicion(r, now)
			m.ID = b.rootOf(ctx, r.TaskID)
			ts, err := b.cfg.Journal.Tasks(ctx, TaskFilter{IDs: []string{m.ID}, Open: true})
			if err != nil {
				return err
			}
			if len(ts) == 1 {
				b.owe(m)
			}
		}
		if len(rs) < f.Page.Limit {
			return nil
		}
		f.Page.After = rs[len(rs)-1].ID
	}
}

// refillAPI remembers again which tokens for the API were revoked: they are of no
// task and no lease.
func (b *Broker) refillAPI(ctx context.Context, now time.Time) error {
	for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: audit.LeaseRevoked, From: now.Add(-b.cfg.Limits.PrincipalTTL)}) {
		if err != nil {
			return err
		}
		if e.TaskID == "" {
			b.tombs.add(e.LeaseID, e.At.Add(b.cfg.Limits.PrincipalTTL))
		}
	}
	return nil
}

// records counts again, from the audit chain, what policy holds against tasks:
// losing the ledger must not give anybody a clean slate.
func (b *Broker) records(ctx context.Context, now time.Time) (map[string]Live, error) {
	out := map[string]Live{}
	for _, kind := range []string{audit.TokenDenied, audit.RequestDenied, audit.TokenReplayed, audit.TaskTainted} {
		for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: kind, From: now.Add(-b.cfg.Limits.MaxTaskTTL)}) {
			if err != nil {
				return nil, err
			}
			l := out[e.TaskID]
			switch kind {
			case audit.TokenReplayed:
				l.Violations++
			case audit.TaskTainted:
				var t taint
				if err := json.Unmarshal(e.Data, &t); err != nil {
					return nil, fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
				}
				l.Taint = AddTaint(l.Taint, t.Sources)
			default:
				l.Denials++
			}
			out[e.TaskID] = l
		}
	}
	return out, b.rollUp(ctx, out)
}

// rollUp counts what delegates did for those above them too (see countAll). What
// they have read is on the record of each.
func (b *Broker) rollUp(ctx context.Context, records map[string]Live) error {
	own := maps.Clone(records)
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(own)), refillPage) {
		ts, err := b.cfg.Journal.Tasks(ctx, TaskFilter{IDs: ids, Page: Page{Limit: refillPage}})
		if err != nil {
			return err
		}
		for _, t := range ts {
			for _, id := range t.Ancestors {
				l := records[id]
				l.Denials += own[t.ID].Denials
				l.Violations += own[t.ID].Violations
				records[id] = l
			}
		}
	}
	return nil
}

// refillPage and refillWidth make a refill short: pages are read while earlier
// ones are written, many entries at a time. A hundred thousand leases must not
// keep a restart waiting.
const (
	refillPage  = 1000
	refillWidth = 256
)

// each does do for everything that read gives, page by page, in no order, and
// counts.
func each[T any](ctx context.Context, read func(context.Context, Page) ([]T, error), id func(T) string, do func(T) error) (int, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(refillWidth)
	n := 0
	for page := (Page{Limit: refillPage}); ; {
		items, err := read(ctx, page)
		if err != nil {
			return n, errors.Join(err, g.Wait())
		}
		for _, it := range items {
			g.Go(func() error { return do(it) })
		}
		n += len(items)
		if len(items) < refillPage {
			return n, g.Wait()
		}
		page.After = id(items[len(items)-1])
	}
}

func (b *Broker) eachTask(ctx context.Context, f TaskFilter, do func(Task) error) (int, error) {
	return each(ctx, func(ctx context.Context, p Page) ([]Task, error) {
		f.Page = p
		return b.cfg.Journal.Tasks(ctx, f)
	}, func(t Task) string { return t.ID }, do)
}

func (b *Broker) eachLease(ctx context.Context, f LeaseFilter, do func(Lease) error) (int, error) {
	f.Now = b.now()
	return each(ctx, func(ctx context.Context, p Page) ([]Lease, error) {
		f.Page = p
		return b.cfg.Journal.Leases(ctx, f)
	}, func(l Lease) string { return l.ID }, do)
}
