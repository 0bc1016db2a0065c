package revocation

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"
	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
)

// Revocations ends tasks and credentials here, and waits for the outcome at third parties (I2).
type Revocations struct {
	approvalStore broker.ApprovalStore
	issuerURL     string
	store         broker.Store
	liveStore     broker.LiveStore
	logger        *slog.Logger
	budgets       *expirable.LRU[string, kernel.Budget]
	crowd         *kernel.Crowd
	m             *kernel.Metrics
	rang          *thirdparty.Waiters
	upstreams     map[string]*thirdparty.Upstream

	approvals approvals
	callers   callers
	clock     *kernel.Timekeeper
	evidence  evidence
	fatigue   fatigue
	feed      *Feeds
	listings  listings
	log       *kernel.Recorder
	pending   *PendingEnds
	queue     *Queue
	tasks     tasks
}

// shownCredentials bounds the credentials in the response to an end; /v1/leases lists the rest.
const shownCredentials = 100

const MaxWait = 60 * time.Second

// CompleteTask ends a task. It is idempotent. When it returns without an error, ebb accepts no
// credential of the task any more (I2). It waits up to wait for providers; Completion.PendingRevocations is
// the number of credentials whose revocation is still pending there.
func (rv *Revocations) CompleteTask(ctx context.Context, who broker.Principal, taskID string, wait time.Duration) (broker.Completion, error) {
	_, slow, err := rv.mineToEnd(ctx, who, taskID)
	if err != nil {
		return broker.Completion{}, err
	}
	c, err := rv.closeSoon(ctx, taskID, broker.TaskMove{Cause: broker.CauseCompleted, By: who.ID}, slow)
	if err != nil {
		return broker.Completion{}, err
	}
	return rv.awaitDead(ctx, c, wait)
}

// StopTask is CompleteTask with a reason. Approvers who may decide a request of the task may
// stop it too, as they could by denying a request as suspicious.
func (rv *Revocations) StopTask(ctx context.Context, who broker.Principal, taskID, reason string, wait time.Duration) (broker.Completion, error) {
	if err := checkReason(reason); err != nil {
		return broker.Completion{}, err
	}
	_, slow, err := rv.mineToEnd(ctx, who, taskID)
	if err != nil && !rv.fatigue.SayIn(ctx, who, taskID) {
		return broker.Completion{}, err
	}
	c, err := rv.closeSoon(ctx, taskID, broker.TaskMove{Cause: broker.CauseStopped, By: who.ID, Reason: reason}, slow)
	if err != nil {
		return broker.Completion{}, err
	}
	return rv.awaitDead(ctx, c, wait)
}

// lookTime bounds one read before an end, so that a store that does not answer delays the end
// only briefly.
const lookTime = 600 * time.Millisecond

// MineSoon is Mine for calls that must work while the database is down or does not answer: ends
// (I6) and heartbeats. It then reads the task's runner from the live store.
func (rv *Revocations) MineSoon(ctx context.Context, who broker.Principal, need broker.Standing, taskID string) (t broker.Task, slow bool, err error) {
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	t, err = rv.tasks.Mine(look, who, need, taskID)
	if err == nil || broker.AsError(err).Kind != broker.Unavailable || !broker.ValidID(broker.TaskPrefix, taskID) || broker.Allow(who, need, broker.RoleRunner, broker.RoleOperator) != nil {
		return t, false, err
	}
	look, cancel = context.WithTimeout(ctx, lookTime)
	defer cancel()
	live, lerr := rv.liveStore.Admit(look, broker.Admission{TaskID: taskID})
	if lerr != nil || (live.Runner != who.ID && !who.Has(broker.RoleOperator)) {
		return broker.Task{}, true, err
	}
	return live.Task, true, nil
}

// mineToEnd is MineSoon for an end. With both stores out of reach an operator may end any task,
// and a runner may end a task whose runner this process has cached. slow means that a store
// does not answer, so that waiting for it is useless.
func (rv *Revocations) mineToEnd(ctx context.Context, who broker.Principal, taskID string) (t broker.Task, slow bool, err error) {
	t, slow, err = rv.MineSoon(ctx, who, broker.Doubtful, taskID)
	if err == nil || !slow || broker.AsError(err).Kind != broker.Unavailable {
		return t, slow || who.Doubt != nil, err
	}
	if g, known := rv.budgets.Peek(taskID); who.Has(broker.RoleOperator) || known && g.Runner == who.ID {
		return broker.Task{ID: taskID}, true, nil
	}
	return t, slow, err
}

// closeTime bounds one attempt to end a task.
const closeTime = 15 * time.Second

// soon is how long the caller of an end waits for stores that do not answer.
const soon = 1200 * time.Millisecond

// closeSoon is Close for a caller that waits. If a store is known not to answer, the caller
// gets the progress after the time soon, and the end continues in the background.
func (rv *Revocations) closeSoon(ctx context.Context, taskID string, m broker.TaskMove, slow bool) (broker.Completion, error) {
	m.ID, m.State, m.At = taskID, broker.TaskClosed, rv.clock.Sure()
	p := &kernel.Progress{}
	if !slow {
		return rv.closeNoting(ctx, taskID, m, p)
	}
	type result struct {
		c   broker.Completion
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := rv.closeNoting(context.WithoutCancel(ctx), taskID, m, p)
		done <- result{c, err}
	}()
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case r := <-done:
		return r.c, r.err
	case <-t.C:
		rv.feed.Ended(taskID, rv.clock.Remember())
		return broker.Completion{}, rv.endPending(m, p, context.DeadlineExceeded)
	}
}

// Close is the only way to end a task. It also ends all tasks delegated below it.
func (rv *Revocations) Close(ctx context.Context, taskID string, m broker.TaskMove) (broker.Completion, error) {
	return rv.closeNoting(ctx, taskID, m, &kernel.Progress{})
}

func (rv *Revocations) closeNoting(ctx context.Context, taskID string, m broker.TaskMove, p *kernel.Progress) (broker.Completion, error) {
	c, err := rv.CloseOne(ctx, taskID, m, p)
	if err != nil || c.Task.Delegation == nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	out, err := rv.tasks.CloseBelow(ctx, c)
	if err != nil {
		m.ID, m.State, m.At = taskID, broker.TaskClosed, c.Task.ClosedAt
		return broker.Completion{}, rv.endPending(m, p, err)
	}
	return out, nil
}

// CloseOne ends one task, in this order: refuse it in this process, refuse it in the live
// store, which every replica asks, make the end durable, then withdraw waiting requests. A step
// that fails is pending and tried again until it succeeds. The caller is told that the task is
// complete only after that.
func (rv *Revocations) CloseOne(ctx context.Context, taskID string, m broker.TaskMove, p *kernel.Progress) (broker.Completion, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	m.ID, m.State = taskID, broker.TaskClosed
	if m.At.IsZero() { // a pending end keeps the time of its request
		m.At = rv.clock.Sure()
	}
	rv.feed.Ended(taskID, rv.clock.Remember())
	counts, done, err := rv.tryClose(ctx, m, p)
	if err != nil {
		return broker.Completion{}, rv.endPending(m, p, err)
	}
	// Close it in the live store again meanwhile: a replica that refilled a lost live store
	// before the end was durable has put the task back as open.
	again := make(chan error, 1)
	go func() {
		_, err := rv.closeLiveStore(ctx, m)
		again <- err
	}()
	out, err := rv.completion(ctx, taskID, counts, !done)
	if lerr := <-again; lerr != nil {
		return broker.Completion{}, rv.endPending(m, p, lerr)
	}
	rv.pending.paid(taskID)
	if done {
		rv.m.Tasks.WithLabelValues(string(m.Cause)).Inc()
	}
	return out, err
}

// endPending returns the error for an end that is not recorded everywhere yet.
func (rv *Revocations) endPending(m broker.TaskMove, p *kernel.Progress, cause error) error {
	r := p.Reached(rv.pending.KeepEnd(m))
	return &broker.Error{Kind: broker.Unavailable, Cause: cause, RetryAfter: 2 * time.Second, Reached: r,
		Public: "The end of the task could not be recorded everywhere yet. Its tokens are refused here, and the broker keeps trying. " + r.Sentence() + " Repeat the call to confirm."}
}

func (rv *Revocations) closeLiveStore(ctx context.Context, m broker.TaskMove) (broker.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, kernel.LiveStoreTime)
	defer cancel()
	c, _, err := rv.liveStore.SetState(ctx, m.ID, broker.TaskClosed, m.At, rv.clock.Remember())
	return c, err
}

// tryClose records the end in the live store and in the database. done is false when the task
// was closed before.
func (rv *Revocations) tryClose(ctx context.Context, m broker.TaskMove, p *kernel.Progress) (counts broker.Counts, done bool, err error) {
	counts, lerr := rv.closeLiveStore(ctx, m)
	p.LiveStore.Store(lerr == nil)
	e := rv.log.TaskEntry(audit.TaskClosed, m.By, m.ID, map[string]any{
		"cause": m.Cause, "reason": m.Reason, "live": counts.Live, "expired": counts.Expired, "live_store": lerr == nil,
	})
	jerr := rv.store.Append(ctx, broker.Record{MoveTask: &m, Entries: []audit.Entry{e}})
	p.Store.Store(jerr == nil || errors.Is(jerr, broker.ErrDone))
	switch {
	case jerr == nil:
		done = true
	case errors.Is(jerr, broker.ErrDone):
		jerr = nil
	case errors.Is(jerr, broker.ErrNotFound):
		return counts, false, nil
	}
	return counts, done, errors.Join(lerr, jerr)
}

func (rv *Revocations) completion(ctx context.Context, taskID string, counts broker.Counts, already bool) (broker.Completion, error) {
	var t broker.Task
	var withdrawn int
	var leases []broker.Lease
	g, reads := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		t, err = rv.tasks.TaskByID(reads, taskID)
		return err
	})
	g.Go(func() (err error) {
		withdrawn, err = rv.withdrawAll(reads, taskID)
		return err
	})
	g.Go(func() (err error) {
		leases, err = rv.shown(reads, taskID)
		return err
	})
	g.Go(func() error { return rv.nudgeTask(reads, taskID) })
	err := g.Wait()
	if err == nil && already { // count as of the first end, so that every response is the same
		counts, _, err = rv.liveStore.SetState(ctx, taskID, broker.TaskClosed, t.ClosedAt, rv.clock.Remember())
	}
	if err != nil {
		if e, ok := errors.AsType[*broker.Error](err); ok {
			return broker.Completion{}, e
		}
		return broker.Completion{}, broker.StoreError(err)
	}
	return broker.Completion{
		Task: t, Already: already, Revoked: counts.Live, AlreadyExpired: counts.Expired, Withdrawn: withdrawn,
		Credentials: leases,
	}, nil
}

// shown returns the newest credentials of a task.
func (rv *Revocations) shown(ctx context.Context, taskID string) ([]broker.Lease, error) {
	return rv.store.Leases(ctx, broker.LeaseFilter{TaskID: taskID, Now: rv.clock.Now(), Page: broker.Page{Limit: shownCredentials, Desc: true}})
}

// withdrawAll withdraws the requests that wait for a person or for their first token.
func (rv *Revocations) withdrawAll(ctx context.Context, taskID string) (int, error) {
	n := 0
	// A request that is decided between the read and the withdrawal is read again: an
	// approved one still waits for its token. No request changes state more than twice.
	for range 3 {
		rs, err := rv.approvalStore.Requests(ctx, broker.RequestFilter{TaskID: taskID, Open: true, Page: broker.Page{Limit: 1000}})
		if err != nil {
			return n, broker.StoreError(err)
		}
		missed := false
		for _, r := range rs {
			did, err := rv.Withdraw(ctx, r, kernel.Self, "task_closed")
			if err != nil {
				return n, err
			}
			if did {
				n++
			} else {
				missed = true
			}
		}
		if !missed {
			break
		}
	}
	return n, nil
}
