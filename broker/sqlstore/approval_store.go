package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// Create implements broker.ApprovalStore. It writes e only with a new request. The task must exist
// (ErrNotFound) and not be closed (ErrTaskClosed). When a pending request with the same
// Dedupe is past its expiry, Create first settles it as expired, with an audit entry.
func (rs *requestStore) Create(ctx context.Context, r broker.Request, room broker.Room, e audit.Entry) (broker.Request, bool, error) {
	args, err := requestArgs(&r)
	if err != nil {
		return broker.Request{}, false, fmt.Errorf("create request: %w", err)
	}
	drafts, err := draft([]audit.Entry{e})
	if err != nil {
		return broker.Request{}, false, fmt.Errorf("create request: %w", err)
	}
	c := creation{r: r, room: room, args: args, entries: drafts}
	if err := rs.com.do(ctx, &unit{work: c.run}); err != nil {
		return broker.Request{}, false, fmt.Errorf("create request: %w", err)
	}
	return c.out, c.made, nil
}

type creation struct {
	r       broker.Request
	room    broker.Room
	args    []any
	entries []audit.Entry

	out  broker.Request
	made bool
}

func (c *creation) run(ctx context.Context, s *session, u *unit) error {
	u.entries, c.made = nil, false
	now := millis(c.r.CreatedAt)
	if raised, err := c.raise(ctx, s, now); err != nil || raised {
		return err
	}
	if err := c.fits(ctx, s, now); err != nil {
		return err
	}
	// The row lock of the task serializes the counting of all replicas.
	n, err := s.exec(ctx, "UPDATE tasks SET state = state WHERE id = ? AND state <> 'closed'", c.r.TaskID)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("task %s: %w", c.r.TaskID, broker.ErrTaskClosed)
	}
	if err := c.fits(ctx, s, now); err != nil {
		return err
	}
	if u.entries, err = c.expire(ctx, s, now); err != nil {
		return err
	}
	return c.insert(ctx, s, u)
}

// raise increments the counter of a pending request that asks for the same, if there is
// one.
func (c *creation) raise(ctx context.Context, s *session, now int64) (bool, error) {
	n, err := s.exec(ctx, "UPDATE requests SET asked = asked + 1 WHERE dedupe = ? AND state = 'pending' AND expires_at > ?", c.r.Dedupe, now)
	if err != nil || n == 0 {
		return false, err
	}
	found, err := readRequests(ctx, s, false, " WHERE dedupe = ? AND state = 'pending'", []any{c.r.Dedupe})
	if err == nil && len(found) != 1 {
		err = errors.New("the pending request was not found after its counter was raised")
	}
	if err != nil {
		return false, err
	}
	c.out = found[0]
	return true, nil
}

// fits checks the limits of requests for the task, its tree and its owner.
func (c *creation) fits(ctx context.Context, s *session, now int64) error {
	type facts struct {
		state broker.TaskState
		root  string
	}
	got, err := collect(ctx, s, "SELECT state, CASE root_id WHEN '' THEN id ELSE root_id END FROM tasks WHERE id = ?",
		[]any{c.r.TaskID}, func(row scan) (f facts, err error) { return f, row(&f.state, &f.root) })
	switch {
	case err != nil:
		return err
	case len(got) == 0:
		return fmt.Errorf("task %s: %w", c.r.TaskID, broker.ErrNotFound)
	case got[0].state == broker.TaskClosed:
		return fmt.Errorf("task %s: %w", c.r.TaskID, broker.ErrTaskClosed)
	}
	if c.room.Owner > 0 {
		full, err := exists(ctx, s, "SELECT 1 FROM requests WHERE owner = ? AND runner = ? AND created_at > ? LIMIT 1 OFFSET ?", c.r.Owner, c.r.Runner, millis(c.room.Since), c.room.Owner-1)
		if err == nil && full {
			err = fmt.Errorf("owner of task %s: %w", c.r.TaskID, broker.ErrOwnerCap)
		}
		if err != nil {
			return err
		}
	}
	if c.room.Open == 0 {
		return nil
	}
	full, err := exists(ctx, s, "SELECT 1 FROM requests r WHERE r.state = 'pending' AND r.expires_at > ? AND r.task_id IN "+
		"(SELECT id FROM tasks WHERE id = ? UNION ALL SELECT id FROM tasks WHERE root_id = ? AND root_id <> '') LIMIT 1 OFFSET ?", now, got[0].root, got[0].root, c.room.Open-1)
	if err == nil && full {
		err = fmt.Errorf("task %s: %w", c.r.TaskID, broker.ErrCap)
	}
	return err
}

// expire settles a pending request that is past its expiry: its dedupe key would stay
// taken.
func (c *creation) expire(ctx context.Context, s *session, now int64) ([]audit.Entry, error) {
	old, err := collect(ctx, s, "SELECT id, task_id FROM requests WHERE dedupe = ? AND state = 'pending' AND expires_at <= ?", []any{c.r.Dedupe, now},
		func(row scan) (e audit.Entry, err error) { return e, row(&e.RequestID, &e.TaskID) })
	if err != nil || len(old) == 0 {
		return nil, err
	}
	e := old[0]
	n, err := s.exec(ctx, "UPDATE requests SET state = 'expired', decided_at = ?, code = ? WHERE id = ? AND state = 'pending'", now, string(broker.NoAnswer), e.RequestID)
	if err != nil || n == 0 {
		return nil, err
	}
	e.At, e.Kind, e.Actor = fromMillis(now), audit.RequestExpired, "ebb"
	return []audit.Entry{e}, nil
}

func (c *creation) insert(ctx context.Context, s *session, u *unit) error {
	n, err := s.exec(ctx, "INSERT INTO requests ("+requestColumns+") VALUES ("+marks(len(c.args))+") ON CONFLICT DO NOTHING", c.args...)
	if err != nil {
		return err
	}
	if n == 0 { // another replica was faster, or the id is taken
		raised, err := c.raise(ctx, s, millis(c.r.CreatedAt))
		if err == nil && !raised {
			err = fmt.Errorf("request %s: %w", c.r.ID, broker.ErrExists)
		}
		return err
	}
	for _, g := range slices.Compact(slices.Sorted(slices.Values(c.r.Groups))) {
		if _, err := s.exec(ctx, "INSERT INTO request_groups (group_name, request_id) VALUES (?, ?)", g, c.r.ID); err != nil {
			return err
		}
	}
	if c.out, err = oneRequest(ctx, s, c.r.ID); err != nil {
		return err
	}
	c.made = true
	u.entries = append(u.entries, c.entries...)
	return nil
}

// Settle implements broker.ApprovalStore. The whole record r is written with the move, or none of
// it. Only Vote approves. A request that expires without a decision gets the deny code
// no_answer.
func (q *revocationStore) Settle(ctx context.Context, id string, from, to broker.RequestState, at time.Time, r broker.Record) (broker.Request, error) {
	if err := checkMove(from, to); err != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: %w", id, err)
	}
	if at.IsZero() {
		return broker.Request{}, fmt.Errorf("settle request %s: a time is required", id)
	}
	if r.SettleLease != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: a lease is settled in a record of its own", id)
	}
	u := &unit{}
	var err error
	if u.lease, err = ownLease(r); err != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: %w", id, err)
	}
	if u.entries, err = draft(r.Entries); err != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: %w", id, err)
	}
	more, err := parts(r)
	if err != nil {
		return broker.Request{}, fmt.Errorf("settle request %s: %w", id, err)
	}
	var out broker.Request
	u.work = func(ctx context.Context, s *session, _ *unit) error {
		if err := move(ctx, s, id, from, to, at); err != nil {
			return err
		}
		if err := more(ctx, s); err != nil {
			return err
		}
		var err error
		out, err = oneRequest(ctx, s, id)
		return err
	}
	if err := q.com.do(ctx, u); err != nil {
		return broker.Request{}, fmt.Errorf("settle request: %w", err)
	}
	return out, nil
}

func checkMove(from, to broker.RequestState) error {
	switch from {
	case broker.RequestPending:
		switch to {
		case broker.RequestDenied, broker.RequestExpired, broker.RequestWithdrawn:
			return nil
		}
	case broker.RequestApproved:
		switch to {
		case broker.RequestIssued, broker.RequestExpired, broker.RequestWithdrawn:
			return nil
		}
	}
	return errors.New("there is no transition from " + string(from) + " to " + string(to))
}

func move(ctx context.Context, s *session, id string, from, to broker.RequestState, at time.Time) error {
	text, args := "UPDATE requests SET state = ?", []any{string(to)}
	if from == broker.RequestPending {
		text, args = text+", decided_at = ?", append(args, millis(at))
	}
	if from == broker.RequestPending && to == broker.RequestExpired {
		text, args = text+", code = ?", append(args, string(broker.NoAnswer))
	}
	n, err := s.exec(ctx, text+" WHERE id = ? AND state = ?", append(args, id, string(from))...)
	if err == nil && n == 0 {
		return lost(ctx, s, "requests", id)
	}
	return err
}
