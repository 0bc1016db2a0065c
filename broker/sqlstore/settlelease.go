package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ebb-broker/ebb/broker"
)

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
