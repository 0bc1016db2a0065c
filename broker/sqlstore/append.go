package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// storeWriter appends records: one unit for each record, many units in one commit.
type storeWriter struct {
	com    *committer
	engine *engine
}

// Append implements broker.Store. While the record waits in the queue, the end of ctx
// withdraws it. Once its batch has begun, the batch runs to its end regardless of ctx,
// and Append waits for that (about 10 seconds at most).
func (w *storeWriter) Append(ctx context.Context, r broker.Record) error {
	return w.Begin(ctx, r)()
}

// Begin implements broker.Store.
func (w *storeWriter) Begin(ctx context.Context, r broker.Record) (wait func() error) {
	u, err := newUnit(r)
	if err == nil {
		err = w.com.put(ctx, u)
	}
	return func() error {
		if err == nil {
			err = w.com.outcome(ctx, u)
		}
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		return nil
	}
}

// newUnit validates a record, so that an invalid one cannot fail a batch of others.
func newUnit(r broker.Record) (*unit, error) {
	if r.SettleLease != nil && !r.Late {
		work, err := settleLease(r)
		return &unit{work: work}, err
	}
	u := &unit{late: r.Late}
	var err error
	if u.lease, err = ownLease(r); err != nil {
		return nil, err
	}
	if u.entries, err = draft(r.Entries); err != nil {
		return nil, err
	}
	if r.OpenTask == nil && r.MoveTask == nil && r.BindSandbox == nil && r.ResealLease == nil && r.EndLease == nil && len(r.Spend) == 0 && r.IssueLease == u.lease {
		if u.lease == nil && len(u.entries) == 0 {
			return nil, errors.New("the record is empty")
		}
		if u.late && u.lease != nil {
			return nil, errors.New("a record with a lease cannot be late; only entries may be late")
		}
		u.egress = u.lease == nil && ofEgress(u.entries)
		return u, nil
	}
	if u.late {
		return nil, errors.New("only entries may be late")
	}
	work, err := parts(r)
	if err != nil {
		return nil, err
	}
	u.work = func(ctx context.Context, s *session, _ *unit) error { return work(ctx, s) }
	return u, nil
}

// ownLease checks the lease that a record issues, and returns it if it is an uncounted
// lease of an own token: these are inserted together with the others of the batch. A
// counted lease is inserted by issueLimited, a lease at a third party by issueUpstream.
func ownLease(r broker.Record) (*broker.Lease, error) {
	if r.IssueLease == nil {
		return nil, nil
	}
	if err := checkLease(r.IssueLease); err != nil || r.IssueLease.Upstream != nil || r.IssueLimit > 0 {
		return nil, err
	}
	return r.IssueLease, nil
}

func draft(entries []audit.Entry) ([]audit.Entry, error) {
	out := make([]audit.Entry, len(entries))
	for i, e := range entries {
		var err error
		if out[i], err = audit.Draft(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type step func(ctx context.Context, s *session) error

// parts returns the compare-and-swaps of a record, ordered so that a single one can
// refuse before any write.
func parts(r broker.Record) (step, error) {
	var steps []step
	for _, part := range []struct {
		set  bool
		make func() (step, error)
	}{
		{r.OpenTask != nil, func() (step, error) { return openTask(r.OpenTask, r.OpenLimit) }},
		{r.MoveTask != nil, func() (step, error) { return moveTask(*r.MoveTask) }},
		{r.BindSandbox != nil, func() (step, error) { return bindSandbox(*r.BindSandbox) }},
		{r.ResealLease != nil, func() (step, error) { return resealLease(*r.ResealLease) }},
		{r.EndLease != nil, func() (step, error) { return endLease(*r.EndLease) }},
		{len(r.Spend) > 0, func() (step, error) { return spend(r.Spend) }},
		{r.IssueLease != nil && r.IssueLimit > 0, func() (step, error) { return issueLimited(r.IssueLease, r.IssueLimit) }},
		{r.IssueLease != nil && r.IssueLease.Upstream != nil, func() (step, error) { return issueUpstream(r.IssueLease) }},
	} {
		if !part.set {
			continue
		}
		st, err := part.make()
		if err != nil {
			return nil, err
		}
		steps = append(steps, st)
	}
	return func(ctx context.Context, s *session) error {
		for _, st := range steps {
			if err := st(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func openTask(t *broker.Task, limit int) (step, error) {
	args, err := taskArgs(t)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.ID, err)
	}
	text := "INSERT INTO tasks (" + taskColumns + ") VALUES (" + marks(len(args)) + ") ON CONFLICT (id) DO NOTHING"
	// A delegated task counts against the limit of its root task, not against its
	// runner's.
	of, whose := "runner = ? AND root_id = ''", t.Runner
	if len(t.Ancestors) > 0 {
		of, whose = "root_id = ? AND root_id <> ''", t.Ancestors[0]
	}
	ancestors, uses := t.Ancestors, t.Caps.Uses
	return func(ctx context.Context, s *session) error {
		if limit > 0 {
			full, err := exists(ctx, s, "SELECT 1 FROM tasks WHERE "+of+" AND state <> 'closed' LIMIT 1 OFFSET ?", whose, limit-1)
			if err != nil {
				return err
			}
			if full {
				return fmt.Errorf("%s has %d open tasks: %w", whose, limit, broker.ErrCap)
			}
		}
		if n := len(ancestors); n > 0 {
			full, err := exists(ctx, s, "SELECT 1 FROM tasks WHERE root_id = ? AND root_id <> '' LIMIT 1 OFFSET ?", ancestors[0], broker.MaxDelegatesEver-1)
			if err != nil {
				return err
			}
			if full {
				return fmt.Errorf("%s has delegated %d times: %w", ancestors[0], broker.MaxDelegatesEver, broker.ErrCap)
			}
			if err := delegated(ctx, s, ancestors[n-1], uses); err != nil {
				return err
			}
		}
		n, err := s.exec(ctx, text, args...)
		if err == nil && n == 0 {
			return fmt.Errorf("task %s: %w", args[0], broker.ErrExists)
		}
		return err
	}, nil
}

func moveTask(m broker.TaskMove) (step, error) {
	if err := storable(m.ID, string(m.Cause), m.Reason, m.By); err != nil {
		return nil, fmt.Errorf("task %s: %w", m.ID, err)
	}
	closedAt, closedBy, cause := int64(0), "", ""
	var paused struct{ by, as string }
	rank := string(m.As)
	switch m.State {
	case broker.TaskOpen:
	case broker.TaskPaused:
		paused.by, paused.as, cause = m.By, rank, string(m.Cause)
	case broker.TaskClosed:
		if m.At.IsZero() || m.Cause == "" {
			return nil, fmt.Errorf("task %s: closing needs a time and a cause", m.ID)
		}
		closedAt, closedBy, cause = millis(m.At), m.By, string(m.Cause)
		rank = string(broker.RoleOperator) // a pause never prevents the close of a task
	default:
		return nil, fmt.Errorf("task %s: unknown state %q", m.ID, m.State)
	}
	return func(ctx context.Context, s *session) error {
		const text = "UPDATE tasks SET state = ?, cause = ?, reason = ?, closed_at = ?, closed_by = ?, paused_by = ?, paused_as = ? " +
			"WHERE id = ? AND state <> 'closed' AND (paused_as <> 'operator' OR ? = 'operator') AND (? = '' OR state = ?)"
		args := []any{string(m.State), cause, m.Reason, closedAt, closedBy, paused.by, paused.as, m.ID, rank, string(m.From), string(m.From)}
		if m.State == broker.TaskClosed {
			// Most tasks have own tokens only; for these one statement is the whole
			// close.
			if n, err := s.exec(ctx, text+" AND has_upstream = 0", args...); err != nil || n == 1 {
				return err
			}
		}
		n, err := s.exec(ctx, text, args...)
		if err == nil && n == 1 && m.State == broker.TaskClosed {
			err = closeUpstream(ctx, s, m)
		}
		if err != nil || n == 1 {
			return err
		}
		held, err := exists(ctx, s, "SELECT 1 FROM tasks WHERE id = ? AND state <> 'closed'", m.ID)
		if err == nil && held && m.From == "" {
			return fmt.Errorf("task %s: %w", m.ID, broker.ErrOutranked)
		}
		if err != nil {
			return err
		}
		return lost(ctx, s, "tasks", m.ID)
	}, nil
}

func bindSandbox(b broker.SandboxOf) (step, error) {
	if b.Sandbox.ID == "" {
		return nil, errors.New("a sandbox needs an id")
	}
	raw, err := json.Marshal(b.Sandbox)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", b.Sandbox.ID, err)
	}
	if err := storable(b.TaskID, b.Sandbox.ID); err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", b.Sandbox.ID, err)
	}
	return func(ctx context.Context, s *session) error {
		n, err := s.exec(ctx, "UPDATE tasks SET sandbox_id = ?, sandbox = ? WHERE id = ? AND sandbox_id = '' AND state <> 'closed'",
			b.Sandbox.ID, string(raw), b.TaskID)
		if err == nil && n == 0 {
			return lost(ctx, s, "tasks", b.TaskID)
		}
		return err
	}, nil
}

func endLease(e broker.LeaseEnd) (step, error) {
	if err := storable(e.ID, e.By, string(e.Cause)); err != nil {
		return nil, fmt.Errorf("lease %s: %w", e.ID, err)
	}
	switch e.State {
	case broker.LeaseRevoking, broker.LeaseRevoked, broker.LeaseExpired, broker.LeaseUnconfirmed:
	default:
		return nil, fmt.Errorf("lease %s: state %q does not end a lease", e.ID, e.State)
	}
	if e.At.IsZero() {
		return nil, fmt.Errorf("lease %s: the time of its end is required", e.ID)
	}
	return func(ctx context.Context, s *session) error {
		if err := endUpstream(ctx, s, e); err != nil {
			return err
		}
		n, err := endRow(ctx, s, e)
		if err == nil && n == 0 {
			return lost(ctx, s, "leases", e.ID)
		}
		if err != nil || e.State != broker.LeaseRevoked && e.State != broker.LeaseRevoking {
			return err
		}
		ids, err := collect(ctx, s, narrowed, []any{e.ID}, func(row scan) (id string, err error) { return id, row(&id) })
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := endNarrowed(ctx, s, e, id); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func endRow(ctx context.Context, s *session, e broker.LeaseEnd) (int64, error) {
	// A lease refused since an earlier moment (its expiry or its revocation) keeps that
	// time; later steps at the provider do not change it.
	const text = `UPDATE leases SET state = ?,
		revoked_at = CASE WHEN revoked_at > 0 OR ? = 'expired' THEN revoked_at WHEN expires_at < ? THEN expires_at ELSE ? END,
		revoked_by = CASE WHEN revoked_by <> '' THEN revoked_by ELSE ? END,
		cause = CASE WHEN cause <> '' THEN cause ELSE ? END
		WHERE id = ? AND state IN ('intent', 'live', 'revoking')`
	return s.exec(ctx, text, string(e.State), string(e.State), millis(e.At), millis(e.At), e.By, string(e.Cause), e.ID)
}

// endNarrowed ends a lease that was narrowed from the lease of e.
func endNarrowed(ctx context.Context, s *session, e broker.LeaseEnd, id string) error {
	e.ID = id
	n, err := queueUpstream(ctx, s, id, e.At)
	if err != nil {
		return err
	}
	if e.State = broker.LeaseRevoked; n > 0 {
		e.State = broker.LeaseRevoking
	}
	_, err = endRow(ctx, s, e)
	return err
}

// narrowed selects the leases narrowed from a lease, at any depth.
const narrowed = `WITH RECURSIVE under(id) AS (
	SELECT id FROM leases WHERE parent_id = ? AND parent_id <> ''
	UNION SELECT l.id FROM under u JOIN leases l ON l.parent_id = u.id AND l.parent_id <> ''
) SELECT id FROM under ORDER BY id`

// lost returns why a compare-and-swap touched no row: ErrDone or ErrNotFound.
func lost(ctx context.Context, s *session, table, id string) error {
	found, err := exists(ctx, s, "SELECT 1 FROM "+table+" WHERE id = ?", id)
	switch {
	case err != nil:
		return err
	case found:
		return fmt.Errorf("%s %s: %w", table, id, broker.ErrDone)
	}
	return fmt.Errorf("%s %s: %w", table, id, broker.ErrNotFound)
}

// delegated checks that the delegating task is open and has at least uses uses left, and
// keeps the task open until the transaction ends.
func delegated(ctx context.Context, s *session, parent string, uses int) error {
	limit, err := hold(ctx, s, parent)
	if err != nil || limit == 0 {
		return err
	}
	if uses <= 0 {
		return fmt.Errorf("task %s: a delegated task needs a limit of uses because this task has one: %w", parent, broker.ErrCap)
	}
	return left(ctx, s, parent, limit, uses)
}

// issueLimited counts the lease against its task. It inserts an own token itself, so that
// the next count includes it; a lease at a third party is inserted by issueUpstream.
func issueLimited(l *broker.Lease, limit int) (step, error) {
	args := appendLease(nil, l)
	return func(ctx context.Context, s *session) error {
		if _, err := hold(ctx, s, l.TaskID); err != nil {
			return err
		}
		if err := left(ctx, s, l.TaskID, limit, 1); err != nil || l.Upstream != nil {
			return err
		}
		n, err := s.exec(ctx, insertLease+" ("+marks(len(args))+") ON CONFLICT (id) DO NOTHING", args...)
		if err == nil && n == 0 {
			err = fmt.Errorf("lease %s: %w", l.ID, broker.ErrExists)
		}
		return err
	}, nil
}

// hold locks a task against concurrent counting until the transaction ends, and returns
// the task's limit of uses.
func hold(ctx context.Context, s *session, taskID string) (uses int, err error) {
	lock := ""
	if s.e.lock != "" {
		lock = " FOR UPDATE"
	}
	rows, err := collect(ctx, s, "SELECT uses FROM tasks WHERE id = ? AND state <> 'closed'"+lock, []any{taskID},
		func(row scan) (n int, err error) { return n, row(&n) })
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("task %s: %w", taskID, broker.ErrTaskClosed)
	}
	if err != nil {
		return 0, err
	}
	return rows[0], nil
}

// left fails with ErrCap when a task has fewer than n uses left.
func left(ctx context.Context, s *session, taskID string, limit, n int) error {
	full, err := exists(ctx, s, "SELECT 1 WHERE (SELECT count(*) FROM leases WHERE task_id = ?) + "+
		"(SELECT CAST(coalesce(sum(uses), 0) AS BIGINT) FROM tasks WHERE parent_id = ? AND parent_id <> '') > ?", taskID, taskID, limit-n)
	if err == nil && full {
		err = fmt.Errorf("task %s has fewer than %d of its %d uses left: %w", taskID, n, limit, broker.ErrCap)
	}
	return err
}
