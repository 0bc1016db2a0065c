package durability

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Refiller fills the LiveStore from the database, at start and after a loss.
type Refiller struct {
	approvalStore broker.ApprovalStore
	store         broker.Store
	liveStore     broker.LiveStore
	limits        broker.Limits
	live          *kernel.LiveState
	m             *kernel.Metrics
	revoked       *kernel.RevokedSet

	clock     *kernel.Timekeeper
	integrity *AuditGuard
	log       *kernel.Recorder
	pending   pending
	tasks     tasks
	tickets   tickets
}

// Refill makes the live store complete. Ends come first, because a forgotten end is the only
// loss that could make a revoked credential valid. It only adds, so that replicas may refill
// the same live store at the same time.
func (rf *Refiller) Refill(ctx context.Context) error {
	rf.live.Incomplete.Store(true)
	now := rf.clock.Sure() // by a clock that is ahead, the refill would omit live leases and recent ends
	if err := rf.liveStore.Check(ctx); errors.Is(err, broker.ErrLost) {
		// Proofs are compared with the time of the loss by the wall clock.
		if err := errors.Join(rf.forget(ctx, rf.clock.Now()), rf.refillEvidence(ctx, now), rf.refillTickets(ctx, now)); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	closed, err := rf.refillClosed(ctx, now)
	if err != nil {
		return err
	}
	if err := rf.refillAPI(ctx, now); err != nil {
		return err
	}
	ended, err := rf.refillEnded(ctx, now, closed)
	if err != nil {
		return err
	}
	open, err := rf.refillOpen(ctx, now)
	if err != nil {
		return err
	}
	if err := rf.refillSuspects(ctx, now); err != nil {
		return err
	}
	live, err := kernel.EachLease(ctx, rf.store, broker.LeaseFilter{Now: now, State: broker.LeaseLive}, func(l broker.Lease) error {
		err := rf.liveStore.PutLease(ctx, broker.LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, broker.LeaseLimits{}, true)
		if errors.Is(err, broker.ErrDone) || errors.Is(err, broker.ErrTaskClosed) {
			return nil // ended meanwhile: the live store is newer
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := rf.liveStore.Mark(ctx); err != nil {
		return err
	}
	rf.live.Incomplete.Store(rf.integrity.Lacks() != nil)
	rf.m.Refills.Inc()
	return rf.store.Append(ctx, broker.Record{Entries: []audit.Entry{rf.log.NewEntry(audit.LiveStoreRefilled, kernel.Self, map[string]int{
		"open_tasks": open, "closed_tasks": len(closed), "live_leases": live, "ended_leases": ended,
	})}})
}

// refillClosed repeats the end of every task whose tokens could still be unexpired.
func (rf *Refiller) refillClosed(ctx context.Context, now time.Time) (map[string]bool, error) {
	var mu sync.Mutex
	closed := map[string]bool{}
	_, err := kernel.EachTask(ctx, rf.store, broker.TaskFilter{State: broker.TaskClosed, ClosedFrom: now.Add(-rf.limits.MaxTTL)}, func(t broker.Task) error {
		mu.Lock()
		closed[t.ID] = true
		mu.Unlock()
		_, _, err := rf.liveStore.SetState(ctx, t.ID, broker.TaskClosed, t.ClosedAt, rf.clock.Remember())
		return err
	})
	return closed, err
}

// refillEnded refuses leases again that were refused before their expiry, whether or not their
// providers refuse them.
func (rf *Refiller) refillEnded(ctx context.Context, now time.Time, closed map[string]bool) (int, error) {
	sum := 0
	for _, state := range []broker.LeaseState{broker.LeaseRevoked, broker.LeaseRevoking, broker.LeaseUnconfirmed} {
		n, err := kernel.EachLease(ctx, rf.store, broker.LeaseFilter{Now: now, State: state, From: now.Add(-rf.limits.MaxTTL)}, func(l broker.Lease) error {
			if closed[l.TaskID] || !l.ExpiresAt.After(now) {
				return nil
			}
			_, err := rf.liveStore.EndLease(ctx, broker.LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}, now)
			return err
		})
		sum += n
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// lossAccepted is the reason for the end of a task that was opened before an accepted loss of
// the database: its own end may be among the lost entries.
const lossAccepted = "opened before a loss of the database that an operator accepted"

// refillOpen puts open tasks back with their counters. A task that is closed in the live store
// and not in the database was being ended during a crash: the end stands.
func (rf *Refiller) refillOpen(ctx context.Context, now time.Time) (int, error) {
	records, err := rf.records(ctx, now)
	if err != nil {
		return 0, err
	}
	return kernel.EachTask(ctx, rf.store, broker.TaskFilter{Open: true}, func(t broker.Task) error {
		l := records[t.ID]
		l.Task, l.Due = t, t.Due(now)
		if err := rf.liveStore.PutTask(ctx, l, rf.tasks.Keep(t)); err != nil {
			return err
		}
		live, err := rf.liveStore.Admit(ctx, broker.Admission{TaskID: t.ID, Refill: true})
		if err != nil {
			return err
		}
		if t.OpenedAt.Before(rf.revoked.Before) {
			rf.pending.KeepEnd(broker.TaskMove{ID: t.ID, State: broker.TaskClosed, Cause: broker.CauseStopped, By: kernel.Self, Reason: lossAccepted, At: now})
		}
		if live.State == broker.TaskClosed {
			rf.pending.KeepEnd(broker.TaskMove{ID: t.ID, State: broker.TaskClosed, Cause: broker.CauseCompleted, By: kernel.Self, Reason: kernel.LiveStoreOnly, At: now})
		}
		return nil
	})
}

// forget records the time of the loss of used proofs, unless the database is empty: then no
// proof was ever used.
func (rf *Refiller) forget(ctx context.Context, now time.Time) error {
	heads, err := rf.store.Heads(ctx)
	if err == nil && len(heads) > 0 {
		rf.live.Since.Store(now.UnixMilli())
	}
	return err
}

// refillEvidence restores the claims that tie valid evidence of principals and sandboxes to
// their keys.
func (rf *Refiller) refillEvidence(ctx context.Context, now time.Time) error {
	for _, kind := range []string{audit.PrincipalAuthenticated, audit.SandboxEnrolled} {
		for e, err := range rf.store.Entries(ctx, broker.EntryFilter{Kind: kind, From: now.Add(-jose.DefaultMaxLifetime)}) {
			if err != nil {
				return err
			}
			var data struct {
				Evidence *kernel.UsedEvidence `json:"evidence"`
			}
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
			}
			if data.Evidence == nil || !data.Evidence.Until.After(now) {
				continue
			}
			_, err = rf.liveStore.Admit(ctx, broker.Admission{Claims: []broker.Claim{{
				Key: data.Evidence.Key, Value: data.Evidence.JKT, Until: data.Evidence.Until, Again: true,
			}}})
			if err != nil && !errors.Is(err, broker.ErrClaimed) {
				return err
			}
		}
	}
	return nil
}

// refillTickets restores the tickets that have not expired, including used ones. If a task has
// its sandbox, a ticket works only with that sandbox's key (see matches), and the Store binds
// one sandbox.
func (rf *Refiller) refillTickets(ctx context.Context, now time.Time) error {
	for e, err := range rf.store.Entries(ctx, broker.EntryFilter{Kind: audit.TaskTicket, From: now.Add(-broker.MaxTicketTTL)}) {
		if err != nil {
			return err
		}
		var data struct {
			Hash  string    `json:"hash"`
			Until time.Time `json:"until"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
		}
		if !data.Until.After(now) {
			continue
		}
		if err := rf.tickets.PutTicket(ctx, data.Hash, e.TaskID, data.Until); err != nil {
			return err
		}
	}
	return nil
}

// refillSuspects ends tasks of requests denied as suspicious, when a process died between the
// vote and the end.
func (rf *Refiller) refillSuspects(ctx context.Context, now time.Time) error {
	f := broker.RequestFilter{State: broker.RequestDenied, Since: now.Add(-rf.limits.MaxTaskTTL), Page: broker.Page{Limit: 1000}}
	for {
		rs, err := rf.approvalStore.Requests(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range rs {
			if r.Code != broker.Suspicious {
				continue
			}
			m := kernel.Suspicion(r, now)
			m.ID = rf.tasks.RootOf(ctx, r.TaskID)
			ts, err := rf.store.Tasks(ctx, broker.TaskFilter{IDs: []string{m.ID}, Open: true})
			if err != nil {
				return err
			}
			if len(ts) == 1 {
				rf.pending.KeepEnd(m)
			}
		}
		if len(rs) < f.Page.Limit {
			return nil
		}
		f.Page.After = rs[len(rs)-1].ID
	}
}

// refillAPI restores the set of revoked tokens for the API, which have no task and no lease.
func (rf *Refiller) refillAPI(ctx context.Context, now time.Time) error {
	for e, err := range rf.store.Entries(ctx, broker.EntryFilter{Kind: audit.LeaseRevoked, From: now.Add(-rf.limits.PrincipalTTL)}) {
		if err != nil {
			return err
		}
		if e.TaskID == "" {
			rf.revoked.Add(e.LeaseID, e.At.Add(rf.limits.PrincipalTTL))
		}
	}
	return nil
}

// records counts the denials, violations and taint of tasks from the audit log, so that a loss
// of the live store does not reset them.
func (rf *Refiller) records(ctx context.Context, now time.Time) (map[string]broker.Live, error) {
	out := map[string]broker.Live{}
	for _, kind := range []string{audit.TokenDenied, audit.RequestDenied, audit.TokenReplayed, audit.TaskTainted} {
		for e, err := range rf.store.Entries(ctx, broker.EntryFilter{Kind: kind, From: now.Add(-rf.limits.MaxTaskTTL)}) {
			if err != nil {
				return nil, err
			}
			l := out[e.TaskID]
			switch kind {
			case audit.TokenReplayed:
				l.Violations++
			case audit.TaskTainted:
				var t broker.Taint
				if err := json.Unmarshal(e.Data, &t); err != nil {
					return nil, fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
				}
				l.Taint = broker.AddTaint(l.Taint, t.Sources)
			default:
				l.Denials++
			}
			out[e.TaskID] = l
		}
	}
	return out, rf.rollUp(ctx, out)
}

// rollUp adds the counts of delegated tasks to their ancestors (see CountAll). Taint is
// recorded for each ancestor already.
func (rf *Refiller) rollUp(ctx context.Context, records map[string]broker.Live) error {
	own := maps.Clone(records)
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(own)), kernel.RefillPage) {
		ts, err := rf.store.Tasks(ctx, broker.TaskFilter{IDs: ids, Page: broker.Page{Limit: kernel.RefillPage}})
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
