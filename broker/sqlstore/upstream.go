package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// settleLease returns the work of a unit that records the outcome of a step at a
// provider. When the lease must be revoked regardless of the outcome, the state of the
// credential is kept, the entries are not written, and the unit answers ErrTaskClosed.
func settleLease(r broker.Record) (func(context.Context, *session, *unit) error, error) {
	m := *r.SettleLease
	if r.OpenTask != nil || r.MoveTask != nil || r.BindSandbox != nil || r.IssueLease != nil || r.ResealLease != nil || r.EndLease != nil {
		return nil, fmt.Errorf("lease %s: it is settled in a record of its own", m.ID)
	}
	if err := checkMoveOf(m); err != nil {
		return nil, fmt.Errorf("lease %s: %w", m.ID, err)
	}
	entries, err := draft(r.Entries)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, s *session, u *unit) error {
		u.answer, u.entries = nil, entries
		revoking, err := settle(ctx, s, m)
		if err == nil && revoking {
			u.answer, u.entries = fmt.Errorf("lease %s: %w", m.ID, broker.ErrTaskClosed), nil
		}
		return err
	}, nil
}

func checkMoveOf(m broker.LeaseMove) error {
	if m.ID == "" || m.Fence < 1 || m.At.IsZero() {
		return errors.New("its id, the fence of a claim and a time are required to settle it")
	}
	switch m.State {
	case broker.LeaseIntent, broker.LeaseLive, broker.LeaseRevoking:
		if m.Upstream.NextAt.IsZero() {
			return fmt.Errorf("state %q needs the time of the next attempt", m.State)
		}
	case broker.LeaseRevoked, broker.LeaseExpired, broker.LeaseUnconfirmed:
		if m.Upstream.Proof == "" {
			return fmt.Errorf("state %q needs a proof", m.State)
		}
		if !m.Hold.IsZero() {
			return fmt.Errorf("state %q ends every claim", m.State)
		}
	default:
		return fmt.Errorf("unknown state %q", m.State)
	}
	if err := checkUpstream(&m.Upstream); err != nil {
		return err
	}
	return storable(m.ID, m.By, string(m.Cause), string(m.Class))
}

// final reports whether a lease never leaves the state.
func final(s broker.LeaseState) bool {
	return s == broker.LeaseRevoked || s == broker.LeaseExpired || s == broker.LeaseUnconfirmed
}

// settle writes a move. revoking is true when the move was to a live state and the lease
// must be revoked.
func settle(ctx context.Context, s *session, m broker.LeaseMove) (revoking bool, err error) {
	up, next := m.Upstream, millis(m.Upstream.NextAt)
	handle, more := "coalesce(nullif(?, ''), handle)", []any{up.Handle}
	if final(m.State) { // the handle is not needed any more
		next, handle, more = 0, "''", nil
	}
	args := slices.Concat([]any{int64(up.Bound), millis(up.DiesAt), millis(up.AcceptedAt), millis(up.DeadAt), string(up.Proof), millis(up.ProbedAt),
		int64(up.Attempts), int64(up.Unjudged), next, up.LastError}, more, []any{millis(m.Hold), m.ID, m.Fence})
	// The UPDATE that locks the row compares the fence: no other transaction can claim
	// the lease, revoke it or close its task between this statement and the next.
	n, err := s.exec(ctx, "UPDATE upstream_leases SET bound = ?, dies_at = ?, accepted_at = ?, dead_at = ?, proof = ?, probed_at = ?, attempts = ?, unjudged = ?, "+
		"next_at = ?, last_error = ?, handle = "+handle+", claimed_until = ? WHERE lease_id = ? AND fence = ? AND next_at > 0", args...)
	if err == nil && n == 0 {
		err = lostUpstream(ctx, s, m.ID)
	}
	if err != nil {
		return false, err
	}
	state, expires, err := settleRow(ctx, s, m)
	if err != nil {
		return false, err
	}
	switch {
	case m.State == broker.LeaseIntent, m.State == broker.LeaseLive:
		if revoking = state == broker.LeaseRevoking; revoking {
			next = millis(m.At)
		} else if m.State == broker.LeaseLive {
			next = min(next, expires)
		}
	}
	if next != millis(up.NextAt) && !final(m.State) {
		_, err = s.exec(ctx, "UPDATE upstream_leases SET next_at = ? WHERE lease_id = ?", next, m.ID)
	}
	return revoking, err
}

// settleRow writes the part of a move that is in the row of the lease. It returns the
// resulting state and expiry.
func settleRow(ctx context.Context, s *session, m broker.LeaseMove) (state broker.LeaseState, expires int64, err error) {
	const said = "class = coalesce(nullif(?, ''), class), expires_at = CASE WHEN ? < expires_at THEN ? ELSE expires_at END"
	until := int64(never)
	if !m.ExpiresAt.IsZero() {
		until = millis(m.ExpiresAt)
	}
	at := min(millis(m.At), until)
	args := []any{string(m.State), string(m.Class), until, until}
	var text string
	switch m.State {
	case broker.LeaseIntent:
		text = "state = CASE WHEN state = 'revoking' THEN state ELSE ? END, " + said + " WHERE id = ? AND state IN ('intent', 'revoking')"
	case broker.LeaseLive:
		text = "state = CASE WHEN state = 'revoking' THEN state ELSE ? END, " + said + " WHERE id = ? AND state IN ('intent', 'live', 'revoking')"
	default:
		text = "state = ?, " + said + ", " + leaving + " WHERE id = ? AND state IN ('intent', 'live', 'revoking')"
		args = append(args, at, at, m.By, string(m.Cause))
	}
	type row struct {
		state   broker.LeaseState
		expires int64
	}
	got, err := collect(ctx, s, "UPDATE leases SET "+text+" RETURNING state, expires_at", append(args, m.ID),
		func(sc scan) (r row, err error) { return r, sc(&r.state, &r.expires) })
	if err != nil {
		return "", 0, err
	}
	s.writes += len(got)
	if len(got) == 0 {
		return "", 0, fmt.Errorf("lease %s: %w", m.ID, broker.ErrDone)
	}
	return got[0].state, got[0].expires, nil
}

// never is later than every time, in milliseconds.
const never = 1<<63 - 1

// resealLease replaces the sealed form of a handle.
func resealLease(c broker.LeaseSeal) (step, error) {
	if c.ID == "" || c.From == "" || c.To == "" {
		return nil, errors.New("sealing a handle again needs its lease, its present sealed form and the new one")
	}
	if err := storable(c.ID, c.From, c.To); err != nil {
		return nil, fmt.Errorf("lease %s: %w", c.ID, err)
	}
	return func(ctx context.Context, s *session) error {
		n, err := s.exec(ctx, "UPDATE upstream_leases SET handle = ? WHERE lease_id = ? AND handle = ?", c.To, c.ID, c.From)
		if err == nil && n == 0 {
			return lostUpstream(ctx, s, c.ID)
		}
		return err
	}, nil
}

// lostUpstream is lost for the row in upstream_leases.
func lostUpstream(ctx context.Context, s *session, id string) error {
	found, err := exists(ctx, s, "SELECT 1 FROM upstream_leases WHERE lease_id = ?", id)
	switch {
	case err != nil:
		return err
	case found:
		return fmt.Errorf("lease %s: %w", id, broker.ErrDone)
	}
	return fmt.Errorf("lease %s: it has no credential at a third party: %w", id, broker.ErrNotFound)
}
