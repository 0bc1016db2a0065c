package issuance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Delegate opens a task for another sandbox with a part of the caller's rights (see
// Task.Child). It also returns an enrolment ticket if the new sandbox enrols by one. The caller
// must prove that it is its task's sandbox; an access token is not enough.
func (o *TaskOpener) Delegate(ctx context.Context, s broker.Subject, p broker.Possession, spec broker.DelegationSpec) (broker.Task, *broker.Ticket, error) {
	if s.AccessToken != "" {
		return broker.Task{}, nil, broker.E(s.Fault, "An access token cannot be delegated. Show the task token, an assertion or evidence.", nil)
	}
	a, err := o.callers.Ask(ctx, kernel.ToMint, s, p)
	if err != nil {
		return broker.Task{}, nil, err
	}
	if a.Live.State == broker.TaskPaused {
		return broker.Task{}, nil, kernel.PausedError()
	}
	t, err := a.Live.Child(spec, broker.NewID(broker.TaskPrefix), o.clock.Now(), a.NotAfter)
	if what := o.checkRegistration(t.Expect); err == nil && what != "" {
		err = broker.E(broker.Invalid, "The task was not delegated: "+what+".", nil)
	}
	if err != nil {
		return broker.Task{}, nil, o.issuer.deny(ctx, a, spec.Ceiling, err)
	}
	// From here on a client that disconnects has no effect.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := o.openDelegated(ctx, a, t); err != nil {
		return broker.Task{}, nil, err
	}
	if t.Expect.Attestor != broker.EnrollName {
		return t, nil, nil
	}
	ticket, err := o.tickets.IssueTicket(ctx, t, 0)
	if err != nil {
		o.Abandon(t)
		return broker.Task{}, nil, err
	}
	return t, &ticket, nil
}

// openDelegated writes a delegated task to the store, then to the live store.
func (o *TaskOpener) openDelegated(ctx context.Context, a kernel.Caller, t broker.Task) error {
	limit := a.Live.Delegation.Open
	if limit == 0 {
		limit = broker.DefaultDelegates
	}
	what := map[string]any{
		"to": t.ID, "by": a.Sandbox.ID, "ceiling": t.Ceiling, "deadline": t.Deadline, "sandbox_expected": t.Expect, "uses": t.Caps.Uses,
		"delegation": t.Delegation,
	}
	err := o.store.Append(ctx, broker.Record{OpenTask: &t, OpenLimit: limit, Entries: []audit.Entry{
		o.log.TaskEntry(audit.TaskDelegated, a.Sandbox.ID, a.Live.ID, what), o.log.TaskEntry(audit.TaskOpened, a.Sandbox.ID, t.ID, what),
	}})
	switch {
	case errors.Is(err, broker.ErrCap):
		return o.issuer.deny(ctx, a, t.Ceiling, &broker.Error{Kind: broker.TooMany, Cause: err, RetryAfter: 10 * time.Second,
			Public: "The task has reached a limit of delegation: open delegates, delegates in all, or uses passed on. Complete a delegate or open a new task."})
	case errors.Is(err, broker.ErrTaskClosed):
		return completedMeanwhile(err)
	case err == nil:
		err = o.liveStore.PutTask(ctx, broker.Live{Task: t, Due: t.Due(t.OpenedAt)}, o.Keep(t))
	}
	if err != nil {
		o.Abandon(t) // the outcome can be unknown: the store may hold it
		return broker.StoreError(err)
	}
	o.m.Tasks.WithLabelValues("delegated").Inc()
	return nil
}

// UnderAncestors limits a delegated task by its ancestors, which look reads (I4, I5, I12). An
// ended ancestor ends it (ErrTaskClosed), a paused one pauses it, and it inherits their taint,
// because they may have passed on what they read.
func (o *TaskOpener) UnderAncestors(live broker.Live, look func(broker.Admission) (broker.Live, error)) (broker.Live, error) {
	for _, id := range live.Ancestors {
		up, err := look(broker.Admission{TaskID: id})
		if err != nil {
			return broker.Live{}, err
		}
		if o.admission.Over(up) {
			return broker.Live{}, fmt.Errorf("%s above %s: %w", id, live.ID, broker.ErrTaskClosed)
		}
		if up.State == broker.TaskPaused {
			live.State = broker.TaskPaused
		}
		// CountAll adds a delegate's counts to its ancestors too, so that they have the sum.
		live.Taint = broker.AddTaint(live.Taint, up.Taint)
		live.Denials = max(live.Denials, up.Denials)
		live.Violations = max(live.Violations, up.Violations)
	}
	return live, nil
}

// CountAll adds u to a task and its ancestors, so that delegating does not reset the counters.
// A closed ancestor is not counted.
func (o *TaskOpener) CountAll(ctx context.Context, taskID string, u broker.Touch) (broker.Live, error) {
	live, err := o.liveStore.Touch(ctx, taskID, u)
	for _, id := range live.Ancestors {
		if _, uerr := o.liveStore.Touch(ctx, id, u); uerr != nil && !errors.Is(uerr, broker.ErrTaskClosed) && !errors.Is(uerr, broker.ErrNotFound) {
			err = errors.Join(err, uerr)
		}
	}
	return live, err
}

// CountRoot is CountAll, and returns the live state of the runner's task at the top of the
// tree.
func (o *TaskOpener) CountRoot(ctx context.Context, taskID string, u broker.Touch) (broker.Live, error) {
	live, err := o.CountAll(ctx, taskID, u)
	if err != nil || len(live.Ancestors) == 0 {
		return live, err
	}
	return o.liveStore.Admit(ctx, broker.Admission{TaskID: live.Root()})
}

// RootOf returns the id of the runner's task at the top of a task's delegation tree.
func (o *TaskOpener) RootOf(ctx context.Context, taskID string) string {
	if live, err := o.liveStore.Admit(ctx, broker.Admission{TaskID: taskID}); err == nil {
		return live.Root()
	}
	if t, err := o.TaskByID(ctx, taskID); err == nil {
		return t.Root()
	}
	return taskID
}

// still returns an error if an ancestor of a task has ended or was paused since the task was
// admitted.
func (o *TaskOpener) still(ctx context.Context, t broker.Task) error {
	if len(t.Ancestors) == 0 {
		return nil
	}
	live, err := o.UnderAncestors(broker.Live{Task: t}, func(a broker.Admission) (broker.Live, error) { return o.liveStore.Admit(ctx, a) })
	if err == nil && live.State == broker.TaskPaused {
		err = broker.ErrTaskPaused
	}
	return err
}

// CloseBelow ends the tasks delegated below a closed task, and adds their counts to its
// completion. No task is opened below a closed one, so that each round is at least one level
// deeper.
func (o *TaskOpener) CloseBelow(ctx context.Context, c broker.Completion) (broker.Completion, error) {
	for open := 1; open > 0; {
		var err error
		open, err = o.EachBelow(ctx, broker.TaskFilter{Below: c.Task.ID, Open: true}, func(ctx context.Context, t broker.Task) error {
			_, err := o.revoker.CloseOne(ctx, t.ID, broker.TaskMove{Cause: broker.CauseParent, By: kernel.Self}, &kernel.Progress{})
			return err
		})
		if err != nil {
			return c, err
		}
	}
	var sum sync.Mutex
	_, err := o.EachBelow(ctx, broker.TaskFilter{Below: c.Task.ID, ClosedFrom: c.Task.ClosedAt}, func(ctx context.Context, t broker.Task) error {
		if t.Cause != broker.CauseParent {
			return nil // it ended for another reason
		}
		n, _, err := o.liveStore.SetState(ctx, t.ID, broker.TaskClosed, t.ClosedAt, o.clock.Remember())
		sum.Lock()
		defer sum.Unlock()
		c.Delegated++
		c.Revoked += n.Live
		c.AlreadyExpired += n.Expired
		return err
	})
	return c, err
}

// EachBelow calls do for every task of f, page by page and delegateEnds at a time, and returns
// their number.
func (o *TaskOpener) EachBelow(ctx context.Context, f broker.TaskFilter, do func(context.Context, broker.Task) error) (int, error) {
	n := 0
	for f.Page = (broker.Page{Limit: kernel.RefillPage}); ; {
		ts, err := o.store.Tasks(ctx, f)
		if err != nil {
			return n, broker.StoreError(err)
		}
		g, one := errgroup.WithContext(ctx)
		g.SetLimit(delegateEnds)
		for _, t := range ts {
			g.Go(func() error { return do(one, t) })
		}
		if err := g.Wait(); err != nil {
			return n, broker.StoreError(err)
		}
		n += len(ts)
		if len(ts) < kernel.RefillPage {
			return n, nil
		}
		f.Page.After = ts[len(ts)-1].ID
	}
}

// delegateEnds bounds the concurrent ends of tasks delegated below one task.
const delegateEnds = 16

// CloseOrphans ends delegated tasks whose parent has ended. A process that died while ending a
// task can leave such tasks.
func (o *TaskOpener) CloseOrphans(ctx context.Context) {
	ts, err := o.store.Tasks(ctx, broker.TaskFilter{Orphaned: true, Page: broker.Page{Limit: kernel.RefillPage}})
	if err != nil {
		o.logger.WarnContext(ctx, "delegated tasks of ended parents could not be read", "error", err)
		return
	}
	var g errgroup.Group
	g.SetLimit(delegateEnds)
	for _, t := range ts {
		g.Go(func() error {
			if _, err := o.revoker.Close(ctx, t.ID, broker.TaskMove{Cause: broker.CauseParent, By: kernel.Self}); err != nil {
				o.logger.WarnContext(ctx, "ending a delegated task failed", "task_id", t.ID, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait()
}

// checkDelegation returns why a runner's delegation is invalid, "" if it is valid.
func (o *TaskOpener) checkDelegation(d *broker.Delegation) string {
	switch {
	case d == nil:
		return ""
	case d.Depth < 1 || d.Depth > broker.MaxDelegationDepth:
		return fmt.Sprintf("delegation.depth must be 1 to %d", broker.MaxDelegationDepth)
	case d.Open < 0 || d.Open > broker.MaxDelegates:
		return fmt.Sprintf("delegation.open must be 0 (%d) to %d", broker.DefaultDelegates, broker.MaxDelegates)
	}
	return o.checkExpect("delegation.sandbox_expected", d.Expect)
}

// actor returns the act claim of a task (RFC 8693 section 4.1): its sandbox, with the sandbox
// that delegated to it nested inside, and so on.
func (o *TaskOpener) actor(t broker.Task) *provider.Actor {
	var before *provider.Actor
	for _, id := range append(slices.Clone(t.Ancestors), t.ID) {
		before = &provider.Actor{Subject: broker.SandboxID(id), Issuer: o.issuerURL, Actor: before}
	}
	return before
}
