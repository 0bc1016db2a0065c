package broker

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// Beat is a runner's sign of life. It needs no journal: a runner that is alive must
// not lose its tasks because the journal is not.
func (b *Broker) Beat(ctx context.Context, who Principal, taskID string) (Task, error) {
	t, _, err := b.mineSoon(ctx, who, certain, taskID)
	if err != nil {
		return Task{}, err
	}
	if t.State == TaskClosed {
		return Task{}, closedError()
	}
	live, err := b.cfg.Ledger.Touch(ctx, taskID, Touch{Due: t.due(b.sure())})
	return live.Task, ledgerError(err)
}

// PauseTask stops minting; live tokens stay.
func (b *Broker) PauseTask(ctx context.Context, who Principal, taskID, reason string) (Task, error) {
	t, err := b.mine(ctx, who, certain, taskID)
	if err != nil {
		return Task{}, err
	}
	return b.move(ctx, who, t, TaskPaused, reason)
}

// ResumeTask lets a paused task mint again. What an operator paused stays paused
// until an operator resumes it: the runner may be what the pause is about. What ebb
// paused because of what the task asked, its owner resumes too.
func (b *Broker) ResumeTask(ctx context.Context, who Principal, taskID string) (Task, error) {
	t, err := b.mayResume(ctx, who, taskID)
	if err != nil {
		return Task{}, err
	}
	return b.move(ctx, who, t, TaskOpen, "")
}

func (b *Broker) move(ctx context.Context, who Principal, t Task, to TaskState, reason string) (Task, error) {
	if utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return Task{}, E(Invalid, "reason must be at most 500 printable characters.", nil)
	}
	if t.State == TaskClosed {
		return Task{}, closedError()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := b.setPaused(ctx, who, t, TaskMove{State: to, Reason: reason}); err != nil {
		return Task{}, err
	}
	t.State, t.Cause, t.Reason, t.PausedBy, t.PausedAs = to, "", reason, "", ""
	if to == TaskPaused {
		t.PausedBy, t.PausedAs = who.ID, rankOf(who)
	}
	return t, nil
}

// rankOf is the role that lets who pause and resume a task.
func rankOf(who Principal) Role {
	if who.Has(RoleOperator) {
		return RoleOperator
	}
	return RoleRunner
}

// setPaused makes a pause true in the ledger first and a resume on the record
// first, and then looks again, so that of a pause and a resume at the same moment
// the record and the ledger never disagree on the open side.
func (b *Broker) setPaused(ctx context.Context, who Principal, t Task, m TaskMove) error {
	now, to := b.now(), m.State
	m.ID, m.By, m.As, m.At = t.ID, who.ID, rankOf(who), now
	data := map[string]any{"reason": m.Reason, "as": m.As}
	if m.Cause != "" {
		data["cause"] = m.Cause
	}
	ledger := func(s TaskState) error {
		_, _, err := b.cfg.Ledger.SetState(ctx, t.ID, s, now, b.keep(t))
		return ledgerError(err)
	}
	kind := audit.TaskResumed
	if to == TaskPaused {
		kind = audit.TaskPaused
		if err := ledger(to); err != nil {
			return err
		}
	}
	if err := b.cfg.Journal.Append(ctx, Record{
		MoveTask: &m, Entries: []audit.Entry{b.taskEntry(kind, who.ID, t.ID, data)},
	}); err != nil {
		return taskError(err)
	}
	if to == TaskPaused {
		b.cuts.tell(func(c Cutter) { c.Pause(t.ID) })
		return ledger(to)
	}
	if err := ledger(to); err != nil {
		return err
	}
	again, err := b.taskByID(ctx, t.ID)
	if err == nil && again.State == TaskPaused {
		return ledger(TaskPaused)
	}
	return err
}

// TaintTask adds to what a task has read from sources that others write. Policy
// and approvers see it; nothing takes it away again. Past MaxTaint names it is
// MoreTaint; the record has them all.
func (b *Broker) TaintTask(ctx context.Context, who Principal, taskID string, sources []string) (Task, error) {
	t, err := b.mine(ctx, who, certain, taskID)
	if err != nil {
		return Task{}, err
	}
	if len(sources) == 0 || len(sources) > 16 || slices.ContainsFunc(sources, func(s string) bool { return !labelForm.MatchString(s) }) {
		return Task{}, E(Invalid, "sources must be 1 to 16 names of a-z A-Z 0-9 . _ / -, such as public-issue-comments.", nil)
	}
	if t.State == TaskClosed {
		return Task{}, closedError()
	}
	if err := b.taintTree(ctx, who.ID, t, sources); err != nil {
		return Task{}, err
	}
	live, err := b.cfg.Ledger.Touch(ctx, taskID, Touch{Taint: sources})
	return live.Task, ledgerError(err)
}

// taintTree taints a task and those above it: what a delegate has read comes back to who
// delegated to it.
func (b *Broker) taintTree(ctx context.Context, actor string, t Task, sources []string) error {
	// In force first, then on the record, whatever the caller does meanwhile: a
	// taint that policy does not see is worse than one the record lacks.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	tree := append([]string{t.ID}, t.Ancestors...)
	if err := b.taintAll(ctx, tree, sources); err != nil {
		return err
	}
	var es []audit.Entry
	for _, id := range tree {
		es = append(es, b.taskEntry(audit.TaskTainted, actor, id, taint{sources}))
	}
	if err := b.cfg.Journal.Append(ctx, Record{Entries: es}); err != nil {
		return unavailable(err)
	}
	return b.taintAll(ctx, tree, sources) // once more, as in tryClose
}

func (b *Broker) taintAll(ctx context.Context, taskIDs, sources []string) error {
	for _, id := range taskIDs {
		if _, err := b.cfg.Ledger.Touch(ctx, id, Touch{Taint: sources}); err != nil {
			return ledgerError(err)
		}
	}
	return nil
}

// taint is the data of an audit.TaskTainted entry; a refill reads it back.
type taint struct {
	Sources []string `json:"sources"`
}
