package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/broker/audit"
)

// Delegate opens a task for another sandbox with a part of what the caller's task
// may (see Task.child), and with a ticket for it where tickets enrol. The caller
// shows what makes it the sandbox of its task; an access token is not enough.
func (b *Broker) Delegate(ctx context.Context, s Subject, p Possession, spec DelegationSpec) (Task, *Ticket, error) {
	if s.AccessToken != "" {
		return Task{}, nil, E(s.Fault, "An access token cannot be delegated. Show the task token, an assertion or evidence.", nil)
	}
	a, err := b.ask(ctx, toMint, s, p)
	if err != nil {
		return Task{}, nil, err
	}
	if a.live.State == TaskPaused {
		return Task{}, nil, pausedError()
	}
	t, err := a.live.child(spec, newID(taskPrefix), b.now(), a.notAfter)
	if what := b.checkRegistration(t.Expect); err == nil && what != "" {
		err = E(Invalid, "The task was not delegated: "+what+".", nil)
	}
	if err != nil {
		return Task{}, nil, b.deny(ctx, a, spec.Ceiling, err)
	}
	// From here on a client that hangs up changes nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := b.openDelegated(ctx, a, t); err != nil {
		return Task{}, nil, err
	}
	if t.Expect.Attestor != enrollName {
		return t, nil, nil
	}
	ticket, err := b.issueTicket(ctx, t.ID)
	if err != nil {
		b.abandon(t)
		return Task{}, nil, err
	}
	return t, &ticket, nil
}

// openDelegated makes a delegated task durable and then known.
func (b *Broker) openDelegated(ctx context.Context, a asker, t Task) error {
	limit := a.live.Delegation.Open
	if limit == 0 {
		limit = DefaultDelegates
	}
	what := map[string]any{
		"to": t.ID, "by": a.sandbox.ID, "ceiling": t.Ceiling, "deadline": t.Deadline, "sandbox_expected": t.Expect, "uses": t.Caps.Uses,
		"delegation": t.Delegation,
	}
	err := b.cfg.Journal.Append(ctx, Record{OpenTask: &t, OpenLimit: limit, Entries: []audit.Entry{
		b.taskEntry(audit.TaskDelegated, a.sandbox.ID, a.live.ID, what), b.taskEntry(audit.TaskOpened, a.sandbox.ID, t.ID, what),
	}})
	switch {
	case errors.Is(err, ErrCap):
		return b.deny(ctx, a, t.Ceiling, &Error{Kind: TooMany, Cause: err, RetryAfter: 10 * time.Second,
			Public: "The task has as many delegates open, has delegated as often, or has handed on as many uses, as it may."})
	case errors.Is(err, ErrTaskClosed):
		return completedMeanwhile(err)
	case err == nil:
		err = b.cfg.Ledger.PutTask(ctx, Live{Task: t, Due: t.due(t.OpenedAt)}, b.keep(t))
	}
	if err != nil {
		b.abandon(t) // the journal may hold it even so: the outcome can be unknown
		return unavailable(err)
	}
	b.m.tasks.WithLabelValues("delegated").Inc()
	return nil
}

// underAncestors bounds a delegated task by those above it, as look finds them: one
// that is over ends it (ErrTaskClosed), one that is paused pauses it, and what
// untrusted sources they have read it may have been told (I4, I5, I12).
func (b *Broker) underAncestors(live Live, look func(Admission) (Live, error)) (Live, error) {
	for _, id := range live.Ancestors {
		up, err := look(Admission{TaskID: id})
		if err != nil {
			return Live{}, err
		}
		if b.over(up) {
			return Live{}, fmt.Errorf("%s above %s: %w", id, live.ID, ErrTaskClosed)
		}
		if up.State == TaskPaused {
			live.State = TaskPaused
		}
		// What a delegate does counts for those above it too (countAll): the sum is there.
		live.Taint = AddTaint(live.Taint, up.Taint)
		live.Denials = max(live.Denials, up.Denials)
		live.Violations = max(live.Violations, up.Violations)
	}
	return live, nil
}

// countAll counts against a task and those above it: delegating must not be a way to
// a clean slate. What is over needs no counting.
func (b *Broker) countAll(ctx context.Context, taskID string, u Touch) (Live, error) {
	live, err := b.cfg.Ledger.Touch(ctx, taskID, u)
	for _, id := range live.Ancestors {
		if _, uerr := b.cfg.Ledger.Touch(ctx, id, u); uerr != nil && !errors.Is(uerr, ErrTaskClosed) && !errors.Is(uerr, ErrNotFound) {
			err = errors.Join(err, uerr)
		}
	}
	return live, err
}

// countRoot is countAll, and returns what is so of the task that it all began with.
func (b *Broker) countRoot(ctx context.Context, taskID string, u Touch) (Live, error) {
	live, err := b.countAll(ctx, taskID, u)
	if err != nil || len(live.Ancestors) == 0 {
		return live, err
	}
	return b.cfg.Ledger.Admit(ctx, Admission{TaskID: live.root()})
}

// rootOf is the task of a runner's that a task began with.
func (b *Broker) rootOf(ctx context.Context, taskID string) string {
	if live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: taskID}); err == nil {
		return live.root()
	}
	if t, err := b.taskByID(ctx, taskID); err == nil {
		return t.root()
	}
	return taskID
}

// still reports whether nothing above a task has ended or was paused since it was
// admitted.
func (b *Broker) still(ctx context.Context, t Task) error {
	if len(t.Ancestors) == 0 {
		return nil
	}
	live, err := b.underAncestors(Live{Task: t}, func(a Admission) (Live, error) { return b.cfg.Ledger.Admit(ctx, a) })
	if err == nil && live.State == TaskPaused {
		err = ErrTaskPaused
	}
	return err
}

// closeBelow ends what was delegated below a closed task, and adds it to its
// completion. No task is opened below a closed one, so that each round is one level
// deeper at least.
func (b *Broker) closeBelow(ctx context.Context, c Completion) (Completion, error) {
	for open := 1; open > 0; {
		var err error
		open, err = b.eachBelow(ctx, TaskFilter{Below: c.Task.ID, Open: true}, func(ctx context.Context, t Task) error {
			_, err := b.closeOne(ctx, t.ID, TaskMove{Cause: CauseParent, By: self}, &progress{})
			return err
		})
		if err != nil {
			return c, err
		}
	}
	var sum sync.Mutex
	_, err := b.eachBelow(ctx, TaskFilter{Below: c.Task.ID, ClosedFrom: c.Task.ClosedAt}, func(ctx context.Context, t Task) error {
		if t.Cause != CauseParent {
			return nil // it was over by itself
		}
		n, _, err := b.cfg.Ledger.SetState(ctx, t.ID, TaskClosed, t.ClosedAt, b.remember())
		sum.Lock()
		defer sum.Unlock()
		c.Delegated++
		c.Revoked += n.Live
		c.AlreadyExpired += n.Expired
		return err
	})
	return c, err
}

// eachBelow does do for every task of f, page by page and some at a time, and counts.
func (b *Broker) eachBelow(ctx context.Context, f TaskFilter, do func(context.Context, Task) error) (int, error) {
	n := 0
	for f.Page = (Page{Limit: refillPage}); ; {
		ts, err := b.cfg.Journal.Tasks(ctx, f)
		if err != nil {
			return n, unavailable(err)
		}
		g, one := errgroup.WithContext(ctx)
		g.SetLimit(delegateEnds)
		for _, t := range ts {
			g.Go(func() error { return do(one, t) })
		}
		if err := g.Wait(); err != nil {
			return n, unavailable(err)
		}
		n += len(ts)
		if len(ts) < refillPage {
			return n, nil
		}
		f.Page.After = ts[len(ts)-1].ID
	}
}

// delegateEnds bounds the ends of delegated tasks that are under way for one.
const delegateEnds = 16

// closeOrphans ends delegated tasks whose parent is over: a process that died in the
// middle of an end left them.
func (b *Broker) closeOrphans(ctx context.Context) {
	ts, err := b.cfg.Journal.Tasks(ctx, TaskFilter{Orphaned: true, Page: Page{Limit: refillPage}})
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "delegated tasks whose parent is over could not be read", "error", err)
		return
	}
	var g errgroup.Group
	g.SetLimit(delegateEnds)
	for _, t := range ts {
		g.Go(func() error {
			if _, err := b.close(ctx, t.ID, TaskMove{Cause: CauseParent, By: self}); err != nil {
				b.cfg.Logger.WarnContext(ctx, "a delegated task could not be ended yet", "task_id", t.ID, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait()
}
