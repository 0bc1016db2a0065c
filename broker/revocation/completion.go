package revocation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/receipt"
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

// Receipt proves the outcome of a closed task's credentials at third parties, as far as it is
// known now. jws is the form that `ebb task receipt verify` checks.
func (q *Queue) Receipt(ctx context.Context, who broker.Principal, taskID string) (r receipt.Receipt, jws string, err error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleRunner, broker.RoleOperator, broker.RoleAuditor, broker.RoleApprover); err != nil {
		return r, "", err
	}
	t, err := q.listings.Task(ctx, who, taskID)
	if err != nil {
		return r, "", err
	}
	if t.State != broker.TaskClosed {
		return r, "", broker.E(broker.Conflict, "The task is not complete: there is no receipt yet. Complete it first.", nil)
	}
	if t.Delegation != nil {
		open, err := q.store.Tasks(ctx, broker.TaskFilter{Below: t.ID, Open: true, Page: broker.Page{Limit: 1}})
		if err != nil {
			return r, "", broker.StoreError(err)
		}
		if len(open) > 0 {
			return r, "", broker.E(broker.Conflict, "Tasks delegated below this one are still being ended: there is no receipt yet. Ask again in a few seconds.", nil)
		}
	}
	if r, err = q.receiptOf(ctx, t); err == nil {
		jws, err = q.signReceipt(r)
	}
	if err != nil {
		return r, "", broker.StoreError(err)
	}
	return r, jws, nil
}

func (q *Queue) signReceipt(r receipt.Receipt) (string, error) {
	signer, kid, _, err := q.keys.Signer(q.clock.Now())
	if err != nil {
		return "", err
	}
	return receipt.Sign(signer, kid, r)
}

// receiptOf reads the outcome of every third-party credential of a tree of tasks. A task
// without any needs one read.
func (q *Queue) receiptOf(ctx context.Context, t broker.Task) (receipt.Receipt, error) {
	out := receipt.Receipt{Issuer: q.issuerURL, IssuedAt: q.clock.Now().Unix(), Task: t.ID, ClosedAt: t.ClosedAt, Cause: string(t.Cause)}
	if err := q.countedAtEnd(ctx, t.ID, &out); err != nil {
		return out, err
	}
	f := broker.UpstreamOf(t)
	if t.Delegation != nil {
		var sum sync.Mutex
		var err error
		_, err = q.tasks.EachBelow(ctx, broker.TaskFilter{Below: t.ID, ClosedFrom: t.ClosedAt}, func(ctx context.Context, c broker.Task) error {
			if c.Cause != broker.CauseParent {
				return nil // it ended for another reason; its credentials are listed all the same
			}
			sum.Lock()
			defer sum.Unlock()
			out.Delegated++
			return q.countedAtEnd(ctx, c.ID, &out)
		})
		if err != nil {
			return out, err
		}
	}
	build := receipt.NewBuilder(out)
	for f.Page = (broker.Page{Limit: kernel.RefillPage}); ; {
		f.Now = q.clock.Sure()
		ls, err := q.store.Leases(ctx, f)
		if err != nil {
			return out, err
		}
		for _, l := range ls {
			if err := build.Add(broker.ProofOf(t, l)); err != nil {
				return out, err
			}
		}
		if len(ls) < kernel.RefillPage {
			return build.Receipt(), nil
		}
		f.Page.After = ls[len(ls)-1].ID
	}
}

// countedAtEnd adds the number of live credentials when a task was closed. It is read from the
// audit log, because the live store forgets it.
func (q *Queue) countedAtEnd(ctx context.Context, taskID string, out *receipt.Receipt) error {
	for e, err := range q.store.Entries(ctx, broker.EntryFilter{TaskID: taskID, Kind: audit.TaskClosed, Limit: 1}) {
		if err != nil {
			return err
		}
		var n struct {
			Live      int  `json:"live"`
			Expired   int  `json:"expired"`
			LiveStore bool `json:"live_store"`
			Ledger    bool `json:"ledger"` // name of live_store in entries of builds before 0.1.0
		}
		if err := json.Unmarshal(e.Data, &n); err != nil {
			return fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
		}
		out.Uncounted = out.Uncounted || !n.LiveStore && !n.Ledger
		out.Live += n.Live
		out.Expired += n.Expired
	}
	return nil
}
