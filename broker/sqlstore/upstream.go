package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

const (
	upstreamColumns = "lease_id, task_id, provider, fence, claimed_until, bound, dies_at, accepted_at, dead_at, proof, probed_at, attempts, unjudged, next_at, last_error, handle"
	insertUpstream  = "INSERT INTO upstream_leases (" + upstreamColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

	// upstreamFields are the columns of u for a reader of leases. A fence of 0 means that
	// u has no row.
	upstreamFields = "coalesce(u.fence, 0), coalesce(u.bound, 0), coalesce(u.dies_at, 0), coalesce(u.accepted_at, 0), coalesce(u.dead_at, 0), " +
		"coalesce(u.proof, ''), coalesce(u.probed_at, 0), coalesce(u.attempts, 0), coalesce(u.unjudged, 0), coalesce(u.next_at, 0), coalesce(u.last_error, '')"
)

// upstreamRow receives upstreamFields.
type upstreamRow struct {
	broker.Upstream
	fence, dies, accepted, dead, probed, next int64
}

func (r *upstreamRow) dest() []any {
	return []any{&r.fence, &r.Bound, &r.dies, &r.accepted, &r.dead, &r.Proof, &r.probed, &r.Attempts, &r.Unjudged, &r.next, &r.LastError}
}

// upstream returns nil for an own token.
func (r *upstreamRow) upstream() *broker.Upstream {
	if r.fence == 0 {
		return nil
	}
	u := r.Upstream
	u.DiesAt, u.AcceptedAt, u.DeadAt, u.ProbedAt, u.NextAt = fromMillis(r.dies), fromMillis(r.accepted), fromMillis(r.dead), fromMillis(r.probed), fromMillis(r.next)
	return &u
}

func checkUpstream(u *broker.Upstream) error {
	if u.Bound < 0 || u.Attempts < 0 || u.Unjudged < 0 {
		return errors.New("a bound and a number of attempts or probes must not be negative")
	}
	return storable(string(u.Proof), u.LastError, u.Handle)
}

// issueUpstream inserts an intent. It does so at once and not with the other inserts of
// the batch, because the close of its task may follow in the same batch.
func issueUpstream(l *broker.Lease) (step, error) {
	u := l.Upstream
	if err := checkUpstream(u); err != nil {
		return nil, fmt.Errorf("lease %s: %w", l.ID, err)
	}
	if l.State != broker.LeaseIntent || u.NextAt.IsZero() {
		return nil, fmt.Errorf("lease %s: at a third party a lease begins as an intent, with the latest time at which its mint ends", l.ID)
	}
	lease := appendLease(nil, l)
	upstream := []any{l.ID, l.TaskID, l.Provider, int64(1), millis(u.NextAt), int64(u.Bound), millis(u.DiesAt), millis(u.AcceptedAt), millis(u.DeadAt),
		string(u.Proof), millis(u.ProbedAt), int64(u.Attempts), int64(u.Unjudged), millis(u.NextAt), u.LastError, u.Handle}
	return func(ctx context.Context, s *session) error {
		if err := holdOpen(ctx, s, l.TaskID); err != nil {
			return err
		}
		n, err := s.exec(ctx, insertLease+" ("+marks(len(lease))+") ON CONFLICT (id) DO NOTHING", lease...)
		if err == nil && n == 0 {
			return fmt.Errorf("lease %s: %w", l.ID, broker.ErrExists)
		}
		if err == nil {
			_, err = s.exec(ctx, insertUpstream, upstream...)
		}
		return err
	}, nil
}

// holdOpen makes sure that the task stays open until the transaction ends, and marks the
// task, so that its close finds the row of this transaction.
func holdOpen(ctx context.Context, s *session, taskID string) error {
	held, err := exists(ctx, s, "SELECT 1 FROM tasks WHERE id = ? AND state <> 'closed' AND has_upstream = 1"+s.e.lock, taskID)
	if err != nil || held {
		return err
	}
	n, err := s.exec(ctx, "UPDATE tasks SET has_upstream = 1 WHERE id = ? AND state <> 'closed'", taskID)
	if err == nil && n == 0 {
		return fmt.Errorf("task %s: %w", taskID, broker.ErrTaskClosed)
	}
	return err
}

// closeUpstream moves the leases of a closed task at third parties to revoking. The row
// of the task is locked, so no intent is added afterwards.
func closeUpstream(ctx context.Context, s *session, m broker.TaskMove) error {
	at := millis(m.At)
	n, err := s.exec(ctx, "UPDATE upstream_leases SET next_at = ? WHERE task_id = ? AND next_at > 0 "+
		"AND EXISTS (SELECT 1 FROM leases l WHERE l.id = upstream_leases.lease_id AND l.state IN ('intent', 'live'))", at, m.ID)
	if err != nil || n == 0 {
		return err
	}
	_, err = s.exec(ctx, "UPDATE leases SET state = 'revoking', "+leaving+" WHERE state IN ('intent', 'live') "+
		"AND id IN (SELECT lease_id FROM upstream_leases WHERE task_id = ? AND next_at > 0)", at, at, m.By, string(m.Cause), m.ID)
	return err
}

// leaving records the time and the cause of a final refusal once.
const leaving = "revoked_at = CASE WHEN revoked_at > 0 THEN revoked_at WHEN expires_at < ? THEN expires_at ELSE ? END, " +
	"revoked_by = CASE WHEN revoked_at > 0 THEN revoked_by ELSE ? END, cause = CASE WHEN revoked_at > 0 THEN cause ELSE ? END"

// queueUpstream makes the revocation of a lease due if the lease is at a third party and
// not settled.
func queueUpstream(ctx context.Context, s *session, id string, at time.Time) (int64, error) {
	return s.exec(ctx, "UPDATE upstream_leases SET next_at = ? WHERE lease_id = ? AND next_at > 0", millis(at), id)
}

// endUpstream is the part of EndLease for the revocation queue. Its statement finds no
// row for an own token.
func endUpstream(ctx context.Context, s *session, e broker.LeaseEnd) error {
	var err error
	switch e.State {
	case broker.LeaseRevoking:
		_, err = queueUpstream(ctx, s, e.ID, e.At)
	case broker.LeaseUnconfirmed:
		_, err = s.exec(ctx, "UPDATE upstream_leases SET next_at = 0, claimed_until = 0, proof = ?, handle = '' WHERE lease_id = ? AND next_at > 0", string(broker.ProofForced), e.ID)
	default:
		var pending bool
		if pending, err = exists(ctx, s, "SELECT 1 FROM upstream_leases WHERE lease_id = ? AND next_at > 0", e.ID); err == nil && pending {
			err = fmt.Errorf("lease %s: %w", e.ID, broker.ErrPendingRevocation)
		}
	}
	return err
}
