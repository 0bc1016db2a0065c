package liveness

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// TaskControl handles heartbeats, and pauses, resumes and taints tasks.
type TaskControl struct {
	store     broker.Store
	liveStore broker.LiveStore
	cuts      *kernel.Disconnects

	clock   *kernel.Timekeeper
	fatigue fatigue
	log     *kernel.Recorder
	revoker revoker
	tasks   tasks
}

// Beat is a runner's heartbeat. It works without the database, so that a live runner does not
// lose its tasks while the database is down.
func (tc *TaskControl) Beat(ctx context.Context, who broker.Principal, taskID string) (broker.Task, error) {
	t, _, err := tc.revoker.MineSoon(ctx, who, broker.Certain, taskID)
	if err != nil {
		return broker.Task{}, err
	}
	if t.State == broker.TaskClosed {
		return broker.Task{}, kernel.ClosedError(t)
	}
	live, err := tc.liveStore.Touch(ctx, taskID, broker.Touch{Due: t.Due(tc.clock.Sure())})
	return live.Task, kernel.LiveStoreError(err)
}

// PauseTask stops the issue of tokens; live tokens stay valid.
func (tc *TaskControl) PauseTask(ctx context.Context, who broker.Principal, taskID, reason string) (broker.Task, error) {
	t, err := tc.tasks.Mine(ctx, who, broker.Certain, taskID)
	if err != nil {
		return broker.Task{}, err
	}
	return tc.move(ctx, who, t, broker.TaskPaused, reason)
}

// ResumeTask lets a paused task get tokens again. A task that an operator paused can be resumed
// by an operator only, because its runner may be the reason. A task that ebb paused because of
// its requests can also be resumed by its owner.
func (tc *TaskControl) ResumeTask(ctx context.Context, who broker.Principal, taskID string) (broker.Task, error) {
	t, err := tc.fatigue.MayResume(ctx, who, taskID)
	if err != nil {
		return broker.Task{}, err
	}
	return tc.move(ctx, who, t, broker.TaskOpen, "")
}

func (tc *TaskControl) move(ctx context.Context, who broker.Principal, t broker.Task, to broker.TaskState, reason string) (broker.Task, error) {
	if utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return broker.Task{}, broker.E(broker.Invalid, "reason must be at most 500 printable characters.", nil)
	}
	if t.State == broker.TaskClosed {
		return broker.Task{}, kernel.ClosedError(t)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := tc.SetPaused(ctx, who, t, broker.TaskMove{State: to, Reason: reason}); err != nil {
		return broker.Task{}, err
	}
	t.State, t.Cause, t.Reason, t.PausedBy, t.PausedAs = to, "", reason, "", ""
	if to == broker.TaskPaused {
		t.PausedBy, t.PausedAs = who.ID, rankOf(who)
	}
	return t, nil
}

// rankOf returns the role by which a principal pauses and resumes a task.
func rankOf(who broker.Principal) broker.Role {
	if who.Has(broker.RoleOperator) {
		return broker.RoleOperator
	}
	return broker.RoleRunner
}

// SetPaused writes a pause to the live store first and a resume to the database first, and then
// checks again. So after a concurrent pause and resume the task is never open in one store
// while it is paused in the other.
func (tc *TaskControl) SetPaused(ctx context.Context, who broker.Principal, t broker.Task, m broker.TaskMove) error {
	now, to := tc.clock.Now(), m.State
	m.ID, m.By, m.As, m.At = t.ID, who.ID, rankOf(who), now
	data := map[string]any{"reason": m.Reason, "as": m.As}
	if m.Cause != "" {
		data["cause"] = m.Cause
	}
	liveStore := func(s broker.TaskState) error {
		_, _, err := tc.liveStore.SetState(ctx, t.ID, s, now, tc.tasks.Keep(t))
		return kernel.LiveStoreError(err)
	}
	kind := audit.TaskResumed
	if to == broker.TaskPaused {
		kind = audit.TaskPaused
		if err := liveStore(to); err != nil {
			return err
		}
	}
	if err := tc.store.Append(ctx, broker.Record{
		MoveTask: &m, Entries: []audit.Entry{tc.log.TaskEntry(kind, who.ID, t.ID, data)},
	}); err != nil {
		return kernel.TaskError(err)
	}
	if to == broker.TaskPaused {
		tc.cuts.Tell(func(c kernel.RevocationListener) { c.Pause(t.ID) })
		return liveStore(to)
	}
	if err := liveStore(to); err != nil {
		return err
	}
	again, err := tc.tasks.TaskByID(ctx, t.ID)
	if err == nil && again.State == broker.TaskPaused {
		return liveStore(broker.TaskPaused)
	}
	return err
}

// TaintTask adds sources to a task's taint: untrusted sources that it has read. Policies and
// approvers see the taint; it is never removed. After MaxTaint names it has MoreTaint; the
// audit log has all names.
func (tc *TaskControl) TaintTask(ctx context.Context, who broker.Principal, taskID string, sources []string) (broker.Task, error) {
	t, err := tc.tasks.Mine(ctx, who, broker.Certain, taskID)
	if err != nil {
		return broker.Task{}, err
	}
	if len(sources) == 0 || len(sources) > 16 || slices.ContainsFunc(sources, func(s string) bool { return !broker.LabelForm.MatchString(s) }) {
		return broker.Task{}, broker.E(broker.Invalid, "sources must be 1 to 16 names of a-z A-Z 0-9 . _ / -, such as public-issue-comments.", nil)
	}
	if t.State == broker.TaskClosed {
		return broker.Task{}, kernel.ClosedError(t)
	}
	if err := tc.TaintTree(ctx, who.ID, t, sources); err != nil {
		return broker.Task{}, err
	}
	live, err := tc.liveStore.Touch(ctx, taskID, broker.Touch{Taint: sources})
	return live.Task, kernel.LiveStoreError(err)
}

// TaintTree taints a task and its ancestors, because a delegated task passes the
// untrusted data that it has read on to them.
func (tc *TaskControl) TaintTree(ctx context.Context, actor string, t broker.Task, sources []string) error {
	// First in the live store, then in the audit log, even if the caller disconnects: a
	// taint that the policy misses is worse than one that the audit log lacks.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	tree := append([]string{t.ID}, t.Ancestors...)
	if err := tc.taintAll(ctx, tree, sources); err != nil {
		return err
	}
	var es []audit.Entry
	for _, id := range tree {
		es = append(es, tc.log.TaskEntry(audit.TaskTainted, actor, id, broker.Taint{Sources: sources}))
	}
	if err := tc.store.Append(ctx, broker.Record{Entries: es}); err != nil {
		return broker.StoreError(err)
	}
	return tc.taintAll(ctx, tree, sources) // once more, as in tryClose
}

func (tc *TaskControl) taintAll(ctx context.Context, taskIDs, sources []string) error {
	for _, id := range taskIDs {
		if _, err := tc.liveStore.Touch(ctx, id, broker.Touch{Taint: sources}); err != nil {
			return kernel.LiveStoreError(err)
		}
	}
	return nil
}
