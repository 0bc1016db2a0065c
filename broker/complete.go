package broker

import (
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// shownCredentials bounds the answer to an end; the rest is listed by /v1/leases.
const shownCredentials = 100

// CompleteTask ends a task. It is idempotent: when it returns without an error,
// no credential of the task is alive anywhere and none ever will be (I2).
func (b *Broker) CompleteTask(ctx context.Context, who Principal, taskID string) (Completion, error) {
	if _, err := b.mine(ctx, who, true, taskID); err != nil {
		return b.closeBlind(ctx, who, taskID, CauseCompleted, "", err)
	}
	return b.close(ctx, taskID, TaskMove{Cause: CauseCompleted, By: who.ID})
}

// StopTask ends a task for cause.
func (b *Broker) StopTask(ctx context.Context, who Principal, taskID, reason string) (Completion, error) {
	if reason == "" || utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return Completion{}, E(Invalid, "reason must be 1 to 500 printable characters.", nil)
	}
	if _, err := b.mine(ctx, who, true, taskID); err != nil {
		return b.closeBlind(ctx, who, taskID, CauseStopped, reason, err)
	}
	return b.close(ctx, taskID, TaskMove{Cause: CauseStopped, By: who.ID, Reason: reason})
}

// closeBlind ends a task although the journal cannot say whose it is: while the
// journal is down, ending must work as far as it can (I6). The ledger still
// knows the runner.
func (b *Broker) closeBlind(ctx context.Context, who Principal, taskID string, cause Cause, reason string, err error) (Completion, error) {
	if AsError(err).Kind != Unavailable || !validID(taskPrefix, taskID) || allow(who, true, RoleRunner, RoleOperator) != nil {
		return Completion{}, err
	}
	live, lerr := b.cfg.Ledger.Admit(ctx, Admission{TaskID: taskID})
	if lerr != nil || (live.Runner != who.ID && !who.Has(RoleOperator)) {
		return Completion{}, err
	}
	return b.close(ctx, taskID, TaskMove{Cause: cause, By: who.ID, Reason: reason})
}

// close is the one way a task ends. The order is: refuse here at once, refuse in
// the ledger, which every replica asks, then make it durable, then take back
// what waits. Whatever step fails is owed and tried again until it is done, and
// the caller is not told that the task is complete before it is.
func (b *Broker) close(ctx context.Context, taskID string, m TaskMove) (Completion, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	m.ID, m.State = taskID, TaskClosed
	if m.At.IsZero() { // an owed end keeps the moment it was asked for
		m.At = b.now()
	}
	b.tombs.add(taskID, m.At.Add(b.cfg.Limits.MaxTaskTTL))
	counts, done, err := b.tryClose(ctx, m)
	if err != nil {
		b.owe(m)
		return Completion{}, &Error{Kind: Unavailable, Cause: err, RetryAfter: 2 * time.Second,
			Public: "The end of the task could not be recorded everywhere yet. Its tokens are refused here, and the broker goes on trying. Ask again to confirm."}
	}
	b.paid(taskID)
	if done {
		b.m.tasks.WithLabelValues(string(m.Cause)).Inc()
	}
	return b.completion(ctx, taskID, counts, !done)
}

// tryClose makes the end true in the ledger and in the journal. done is false
// when the task was closed before.
func (b *Broker) tryClose(ctx context.Context, m TaskMove) (counts Counts, done bool, err error) {
	keep := m.At.Add(b.cfg.Limits.MaxTaskTTL)
	counts, _, lerr := b.cfg.Ledger.SetState(ctx, m.ID, TaskClosed, m.At, keep)
	e := b.taskEntry(audit.TaskClosed, m.By, m.ID, map[string]any{
		"cause": m.Cause, "reason": m.Reason, "live": counts.Live, "expired": counts.Expired, "ledger": lerr == nil,
	})
	jerr := b.cfg.Journal.Append(ctx, Record{MoveTask: &m, Entries: []audit.Entry{e}})
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
	t, err := b.taskByID(ctx, taskID)
	if err != nil {
		return Completion{}, err
	}
	if already { // count as of the real end, so that every answer is the same
		if counts, _, err = b.cfg.Ledger.SetState(ctx, taskID, TaskClosed, t.ClosedAt, b.keep(t)); err != nil {
			return Completion{}, unavailable(err)
		}
	}
	withdrawn, err := b.withdrawAll(ctx, t)
	if err != nil {
		return Completion{}, err
	}
	leases, err := b.cfg.Journal.Leases(ctx, LeaseFilter{TaskID: taskID, Now: b.now(), Page: Page{Limit: shownCredentials, Desc: true}})
	if err != nil {
		return Completion{}, unavailable(err)
	}
	return Completion{
		Task: t, Already: already, Revoked: counts.Live, AlreadyExpired: counts.Expired, Withdrawn: withdrawn,
		Credentials: leases, Upstream: []Upstream{},
	}, nil
}

// withdrawAll takes back what still waits for a person or for its first token.
func (b *Broker) withdrawAll(ctx context.Context, t Task) (int, error) {
	n := 0
	for _, state := range []RequestState{RequestPending, RequestApproved} {
		rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{TaskID: t.ID, State: state, Page: Page{Limit: 1000}})
		if err != nil {
			return n, unavailable(err)
		}
		for _, r := range rs {
			did, err := b.withdraw(ctx, r, self, "task_closed")
			if err != nil {
				return n, err
			}
			if did {
				n++
			}
		}
	}
	return n, nil
}

// owe remembers an end that a store has not taken yet; payOwed tries again.
func (b *Broker) owe(m TaskMove) {
	b.owedMu.Lock()
	defer b.owedMu.Unlock()
	if _, known := b.owed[m.ID]; !known {
		b.owed[m.ID] = m
	}
	b.m.owed.Set(float64(len(b.owed)))
}

func (b *Broker) paid(taskID string) {
	b.owedMu.Lock()
	defer b.owedMu.Unlock()
	delete(b.owed, taskID)
	b.m.owed.Set(float64(len(b.owed)))
}

func (b *Broker) payOwed(ctx context.Context) {
	b.owedMu.Lock()
	due := make([]TaskMove, 0, len(b.owed))
	for _, m := range b.owed {
		due = append(due, m)
	}
	b.owedMu.Unlock()
	for _, m := range due {
		if _, err := b.close(ctx, m.ID, m); err != nil {
			b.cfg.Logger.WarnContext(ctx, "the end of a task is still owed", "task_id", m.ID, "error", err)
		}
	}
}

// tombs are the ends this process knows of by itself or from the feed. They are
// asked before the ledger, so that an end that the ledger forgets in a failover
// still holds here.
type tombs struct {
	mu sync.RWMutex
	m  map[string]time.Time // task or lease id -> forget after
}

func (t *tombs) add(id string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = map[string]time.Time{}
	}
	if until.After(t.m[id]) {
		t.m[id] = until
	}
}

func (t *tombs) has(id string, now time.Time) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return now.Before(t.m[id])
}

func (t *tombs) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, until := range t.m {
		if !now.Before(until) {
			delete(t.m, id)
		}
	}
}
