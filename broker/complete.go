package broker

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// shownCredentials bounds the answer to an end; the rest is listed by /v1/leases.
const shownCredentials = 100

// DefaultWait is how long the end of a task waits for its credentials at third parties where the
// outcome matters and no time is named, as at the end of `ebb run`; MaxWait is the longest.
const (
	DefaultWait = 10 * time.Second
	MaxWait     = 60 * time.Second
)

// CompleteTask ends a task. It is idempotent: when it returns without an error, no
// credential of the task is accepted by anything of ebb's and none ever will be
// (I2). It waits up to wait for providers, and Completion.Owed says how many
// credentials are not yet known to be dead at theirs.
func (b *Broker) CompleteTask(ctx context.Context, who Principal, taskID string, wait time.Duration) (Completion, error) {
	_, slow, err := b.mineToEnd(ctx, who, taskID)
	if err != nil {
		return Completion{}, err
	}
	c, err := b.closeSoon(ctx, taskID, TaskMove{Cause: CauseCompleted, By: who.ID}, slow)
	if err != nil {
		return Completion{}, err
	}
	return b.awaitDead(ctx, c, wait)
}

// StopTask is CompleteTask for cause. Approvers who have a say in a request of the task
// stop it too, as they do by calling a request suspicious.
func (b *Broker) StopTask(ctx context.Context, who Principal, taskID, reason string, wait time.Duration) (Completion, error) {
	if reason == "" || utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return Completion{}, E(Invalid, "reason must be 1 to 500 printable characters.", nil)
	}
	_, slow, err := b.mineToEnd(ctx, who, taskID)
	if err != nil && !b.sayIn(ctx, who, taskID) {
		return Completion{}, err
	}
	c, err := b.closeSoon(ctx, taskID, TaskMove{Cause: CauseStopped, By: who.ID, Reason: reason}, slow)
	if err != nil {
		return Completion{}, err
	}
	return b.awaitDead(ctx, c, wait)
}

// lookTime bounds one look on the way to an end, so that a store that does not answer
// keeps nobody from ending something for long.
const lookTime = 600 * time.Millisecond

// mineSoon is mine for what must work as far as it can while the journal is down
// or does not answer: ends (I6) and signs of life. The ledger knows the runner too.
func (b *Broker) mineSoon(ctx context.Context, who Principal, need standing, taskID string) (t Task, slow bool, err error) {
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	t, err = b.mine(look, who, need, taskID)
	if err == nil || AsError(err).Kind != Unavailable || !validID(taskPrefix, taskID) || allow(who, need, RoleRunner, RoleOperator) != nil {
		return t, false, err
	}
	look, cancel = context.WithTimeout(ctx, lookTime)
	defer cancel()
	live, lerr := b.cfg.Ledger.Admit(look, Admission{TaskID: taskID})
	if lerr != nil || (live.Runner != who.ID && !who.Has(RoleOperator)) {
		return Task{}, true, err
	}
	return live.Task, true, nil
}

// mineToEnd is mineSoon for an end. With both stores out of reach an operator may end any
// task, and a runner one of which this process has minted: it knows whose that is. slow
// says that a store does not answer, so that waiting for it is no use.
func (b *Broker) mineToEnd(ctx context.Context, who Principal, taskID string) (t Task, slow bool, err error) {
	t, slow, err = b.mineSoon(ctx, who, doubtful, taskID)
	if err == nil || !slow || AsError(err).Kind != Unavailable {
		return t, slow || who.doubt != nil, err
	}
	if g, known := b.budgets.Peek(taskID); who.Has(RoleOperator) || known && g.runner == who.ID {
		return Task{ID: taskID}, true, nil
	}
	return t, slow, err
}

// closeTime bounds one attempt at an end.
const closeTime = 15 * time.Second

// soon is how long somebody who ends a task is kept waiting for stores that do not answer.
const soon = 1200 * time.Millisecond

// closeSoon is close for somebody who waits. Where a store is known not to answer they
// hear soon how far the end has got, and it goes on without them.
func (b *Broker) closeSoon(ctx context.Context, taskID string, m TaskMove, slow bool) (Completion, error) {
	m.ID, m.State, m.At = taskID, TaskClosed, b.now()
	p := &progress{}
	if !slow {
		return b.closeNoting(ctx, taskID, m, p)
	}
	type result struct {
		c   Completion
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := b.closeNoting(context.WithoutCancel(ctx), taskID, m, p)
		done <- result{c, err}
	}()
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case r := <-done:
		return r.c, r.err
	case <-t.C:
		b.ended(taskID, b.remember())
		return Completion{}, b.stillOwed(m, p, context.DeadlineExceeded)
	}
}

// close is the one way a task ends, and with it everything that was delegated below.
func (b *Broker) close(ctx context.Context, taskID string, m TaskMove) (Completion, error) {
	return b.closeNoting(ctx, taskID, m, &progress{})
}

func (b *Broker) closeNoting(ctx context.Context, taskID string, m TaskMove, p *progress) (Completion, error) {
	c, err := b.closeOne(ctx, taskID, m, p)
	if err != nil || c.Task.Delegation == nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	out, err := b.closeBelow(ctx, c)
	if err != nil {
		m.ID, m.State, m.At = taskID, TaskClosed, c.Task.ClosedAt
		return Completion{}, b.stillOwed(m, p, err)
	}
	return out, nil
}

// closeOne ends one task. The order is: refuse here at once, refuse in
// the ledger, which every replica asks, then make it durable, then take back
// what waits. Whatever step fails is owed and tried again until it is done, and
// the caller is not told that the task is complete before it is.
func (b *Broker) closeOne(ctx context.Context, taskID string, m TaskMove, p *progress) (Completion, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	m.ID, m.State = taskID, TaskClosed
	if m.At.IsZero() { // an owed end keeps the moment it was asked for
		m.At = b.now()
	}
	b.ended(taskID, b.remember())
	counts, done, err := b.tryClose(ctx, m, p)
	if err != nil {
		return Completion{}, b.stillOwed(m, p, err)
	}
	// Once more, while the answer is gathered: a replica that refilled a lost ledger
	// before the journal knew of the end put the task back as open.
	again := make(chan error, 1)
	go func() {
		_, err := b.closeLedger(ctx, m)
		again <- err
	}()
	out, err := b.completion(ctx, taskID, counts, !done)
	if lerr := <-again; lerr != nil {
		return Completion{}, b.stillOwed(m, p, lerr)
	}
	b.paid(taskID)
	if done {
		b.m.tasks.WithLabelValues(string(m.Cause)).Inc()
	}
	return out, err
}

// stillOwed is the answer to an end that is not true everywhere yet.
func (b *Broker) stillOwed(m TaskMove, p *progress, cause error) error {
	r := p.reached(b.owe(m))
	return &Error{Kind: Unavailable, Cause: cause, RetryAfter: 2 * time.Second, Reached: r,
		Public: "The end of the task could not be recorded everywhere yet. Its tokens are refused here, and the broker goes on trying. " + r.sentence() + " Ask again to confirm."}
}

// ledgerTime is how long an end waits for a ledger that hangs before it goes on to
// the journal: what is durable is all that a restart has.
const ledgerTime = time.Second

func (b *Broker) closeLedger(ctx context.Context, m TaskMove) (Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	c, _, err := b.cfg.Ledger.SetState(ctx, m.ID, TaskClosed, m.At, b.remember())
	return c, err
}

// tryClose makes the end true in the ledger and in the journal. done is false
// when the task was closed before.
func (b *Broker) tryClose(ctx context.Context, m TaskMove, p *progress) (counts Counts, done bool, err error) {
	counts, lerr := b.closeLedger(ctx, m)
	p.ledger.Store(lerr == nil)
	e := b.taskEntry(audit.TaskClosed, m.By, m.ID, map[string]any{
		"cause": m.Cause, "reason": m.Reason, "live": counts.Live, "expired": counts.Expired, "ledger": lerr == nil,
	})
	jerr := b.cfg.Journal.Append(ctx, Record{MoveTask: &m, Entries: []audit.Entry{e}})
	p.journal.Store(jerr == nil || errors.Is(jerr, ErrDone))
	switch {
	case jerr == nil:
		done = true
	case errors.Is(jerr, ErrDone):
		jerr = nil
	case errors.Is(jerr, ErrNotFound):
		return counts, false, nil
	}
	return counts, done, errors.Join(lerr, jerr)
}

func (b *Broker) completion(ctx context.Context, taskID string, counts Counts, already bool) (Completion, error) {
	var t Task
	var withdrawn int
	var leases []Lease
	g, reads := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		t, err = b.taskByID(reads, taskID)
		return err
	})
	g.Go(func() (err error) {
		withdrawn, err = b.withdrawAll(reads, taskID)
		return err
	})
	g.Go(func() (err error) {
		leases, err = b.shown(reads, taskID)
		return err
	})
	g.Go(func() error { return b.nudgeTask(reads, taskID) })
	err := g.Wait()
	if err == nil && already { // count as of the real end, so that every answer is the same
		counts, _, err = b.cfg.Ledger.SetState(ctx, taskID, TaskClosed, t.ClosedAt, b.remember())
	}
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			return Completion{}, e
		}
		return Completion{}, unavailable(err)
	}
	return Completion{
		Task: t, Already: already, Revoked: counts.Live, AlreadyExpired: counts.Expired, Withdrawn: withdrawn,
		Credentials: leases,
	}, nil
}

// shown are the newest credentials of a task.
func (b *Broker) shown(ctx context.Context, taskID string) ([]Lease, error) {
	return b.cfg.Journal.Leases(ctx, LeaseFilter{TaskID: taskID, Now: b.now(), Page: Page{Limit: shownCredentials, Desc: true}})
}

// withdrawAll takes back what still waits for a person or for its first token.
func (b *Broker) withdrawAll(ctx context.Context, taskID string) (int, error) {
	n := 0
	// A request that is decided between the look and the step is looked at again: an
	// approved one still waits. None can move more than twice.
	for range 3 {
		rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{TaskID: taskID, Open: true, Page: Page{Limit: 1000}})
		if err != nil {
			return n, unavailable(err)
		}
		missed := false
		for _, r := range rs {
			did, err := b.withdraw(ctx, r, self, "task_closed")
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
