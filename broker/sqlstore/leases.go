package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"ebb/broker"
	"ebb/scopes"
)

const (
	leaseWidth  = 20
	insertLease = "INSERT INTO leases (id, task_id, sandbox, owner, provider, scope, resource, jkt, x5t, class, request_id, rule, tool, txn, " +
		"issued_at, expires_at, state, revoked_at, revoked_by, cause) VALUES"

	// closedFirst: the end of the task ended the lease, before its own expiry could.
	closedFirst = "t.state = 'closed' AND t.closed_at < l.expires_at"

	// leaseState derives the state, at the moment of its one parameter. Only live
	// rows are derived: an intent or a revocation that is owed to a provider is
	// settled by what the provider says, never by the clock.
	leaseState = "CASE WHEN l.state <> 'live' THEN l.state WHEN " + closedFirst + " THEN 'revoked' WHEN l.expires_at <= ? THEN 'expired' ELSE 'live' END"

	selectLease = "SELECT l.id, l.task_id, l.sandbox, l.owner, l.provider, l.scope, l.resource, l.jkt, l.x5t, l.class, l.request_id, l.rule, l.tool, l.txn, " +
		"l.issued_at, l.expires_at, l.state, l.revoked_at, l.revoked_by, l.cause, " +
		leaseState + ", coalesce(t.closed_at, 0), coalesce(t.closed_by, ''), coalesce(t.cause, '') " +
		"FROM leases l LEFT JOIN tasks t ON t.id = l.task_id"
)

func checkLease(l *broker.Lease) error {
	switch l.State {
	case broker.LeaseIntent, broker.LeaseLive:
	default:
		return fmt.Errorf("lease %s: it cannot be issued in state %q", l.ID, l.State)
	}
	if l.ID == "" || l.TaskID == "" || l.IssuedAt.IsZero() || !l.ExpiresAt.After(l.IssuedAt) {
		return errors.New("a lease needs an id, a task, and an expiry after its issue")
	}
	err := storable(l.ID, l.TaskID, l.Sandbox, l.Owner, l.Provider, l.Resource, l.Binding.JKT, l.Binding.X5T, string(l.Class), l.RequestID, l.Rule, l.Tool, l.Txn)
	if err != nil {
		return fmt.Errorf("lease %s: %w", l.ID, err)
	}
	return nil
}

func appendLease(args []any, l *broker.Lease) []any {
	return append(args, l.ID, l.TaskID, l.Sandbox, l.Owner, l.Provider, l.Scopes.String(), l.Resource, l.Binding.JKT, l.Binding.X5T, string(l.Class),
		l.RequestID, l.Rule, l.Tool, l.Txn, millis(l.IssuedAt), millis(l.ExpiresAt), string(l.State), int64(0), "", "")
}

// Leases implements broker.Journal.
func (s *Store) Leases(ctx context.Context, f broker.LeaseFilter) ([]broker.Lease, error) {
	if f.Now.IsZero() {
		return nil, errors.New("leases: the filter needs Now")
	}
	w := where{args: []any{millis(f.Now)}}
	w.equal("l.task_id", f.TaskID)
	w.equal("l.owner", f.Owner)
	w.equal("l.sandbox", f.Sandbox)
	w.equal("l.provider", f.Provider)
	if !f.From.IsZero() {
		w.add("l.issued_at >= ?", millis(f.From))
	}
	if !f.To.IsZero() {
		w.add("l.issued_at < ?", millis(f.To))
	}
	if f.State != "" {
		if err := s.byState(ctx, &w, f); err != nil {
			return nil, fmt.Errorf("leases: %w", s.engine.explain(err))
		}
	}
	tail, err := w.page("l.id", f.Page, f.IDs)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	out, err := collect(ctx, pool{s.engine}, selectLease+w.String()+tail, w.args, scanLease)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", s.engine.explain(err))
	}
	return out, nil
}

// byState adds the condition on the derived state, and for the two kinds of
// listings that a start needs, how to find the few among the many.
func (s *Store) byState(ctx context.Context, w *where, f broker.LeaseFilter) error {
	now := millis(f.Now)
	w.add("("+leaseState+") = ?", now, string(f.State))
	switch f.State {
	case broker.LeaseIntent, broker.LeaseRevoking:
		w.add("l.state IN ('intent', 'revoking')") // the partial index
	case broker.LeaseLive:
		if f.Page.After == "" && !f.Page.Desc {
			// Skip everything that expired before the first that did not: ids sort by time.
			first, err := collect(ctx, pool{s.engine}, "SELECT coalesce(min(id || ''), '') FROM leases WHERE expires_at > ?", []any{now},
				func(row scan) (id string, err error) { return id, row(&id) })
			if err != nil {
				return err
			}
			w.add("l.id >= ?", first[0])
		}
		// "+ 0" keeps the index on expires_at out of it: a page in the order of
		// ids comes from the primary key, not from sorting all live leases.
		w.add("l.expires_at + 0 > ?", now)
	}
	return nil
}

func scanLease(row scan) (broker.Lease, error) {
	var l broker.Lease
	var scope string
	var issued, expires, revoked, closed int64
	var derived broker.LeaseState
	var closedBy string
	var cause broker.Cause
	err := row(&l.ID, &l.TaskID, &l.Sandbox, &l.Owner, &l.Provider, &scope, &l.Resource, &l.Binding.JKT, &l.Binding.X5T, &l.Class, &l.RequestID, &l.Rule, &l.Tool,
		&l.Txn, &issued, &expires, &l.State, &revoked, &l.RevokedBy, &l.Cause, &derived, &closed, &closedBy, &cause)
	if err != nil {
		return l, err
	}
	l.IssuedAt, l.ExpiresAt, l.RevokedAt = fromMillis(issued), fromMillis(expires), fromMillis(revoked)
	if derived == broker.LeaseRevoked && l.State == broker.LeaseLive {
		// A lease that lost the race against the end of its task was never valid.
		l.RevokedAt, l.RevokedBy, l.Cause = fromMillis(max(closed, issued)), closedBy, cause
	}
	l.State = derived
	if l.Scopes, err = scopes.ParseSet(scope); err != nil {
		return l, fmt.Errorf("lease %s: the stored row is damaged: %w", l.ID, err)
	}
	return l, nil
}
