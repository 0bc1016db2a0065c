package sqlstore

import (
	"context"
	"fmt"

	"github.com/ebb-broker/ebb/broker"
)

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
