package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ebb/broker"
	"ebb/scopes"
)

const (
	insertLease = "INSERT INTO leases (" + leaseColumns + ") VALUES"

	leaseColumns = "id, task_id, sandbox, owner, provider, scope, resource, jkt, x5t, class, request_id, rule, tool, txn, " +
		"issued_at, expires_at, state, revoked_at, revoked_by, cause, parent_id, delivery"
	leaseWidth = 22

	// ended is when the task of lease l was closed, or NULL. A subquery and not a
	// join: a page in the order of ids then comes from the primary key and stops at
	// its limit, whatever the planner believes about how many rows will match.
	// Nor does it say "state = 'closed'": a partial index has the same words, and is
	// the wrong way to one task.
	ended = "(SELECT nullif(t.closed_at, 0) FROM tasks t WHERE t.id = l.task_id)"
)

// leaseNumbers are the places of leaseColumns that are no text.
var leaseNumbers = [...]int{14, 15, 17} // issued_at, expires_at, revoked_at

// leaseFields are the columns of lease l.
var leaseFields = "l." + strings.ReplaceAll(leaseColumns, ", ", ", l.")

// leaseState derives the state at the moment of its one parameter; ended is when
// the task was closed, owed whether the lease is at a third party. Only live rows
// are derived: an intent or a revocation that is owed to a provider is settled by
// what the provider says, never by the clock, which makes it owed at most.
func leaseState(ended, owed string) string {
	return "CASE WHEN l.state <> 'live' THEN l.state " +
		"WHEN " + ended + " < l.expires_at THEN CASE WHEN " + owed + " THEN 'revoking' ELSE 'revoked' END " +
		"WHEN l.expires_at <= ? THEN CASE WHEN " + owed + " THEN 'revoking' ELSE 'expired' END ELSE 'live' END"
}

// leaseRows is the INSERT of own tokens, in three parts: what precedes the rows, one
// row, and what follows them. The task of each row is looked up: one that is closed
// or unknown gives NULL, which the column refuses (see engine.shut). lock keeps the
// task from being closed by another process before this one has committed. The
// subquery stands once beside the rows and not once in each, because PostgreSQL sets
// up each that it finds in a text whenever it runs it.
func leaseRows(lock string) (head, row, tail string) {
	columns, marks := make([]string, leaseWidth), make([]string, leaseWidth)
	for i := range columns {
		columns[i], marks[i] = "column"+strconv.Itoa(i+1), "?"
	}
	for _, i := range leaseNumbers {
		marks[i] = "CAST(? AS BIGINT)" // a row of its own, before it is one of leases, is text to PostgreSQL
	}
	columns[1] = "(SELECT id FROM tasks WHERE id = column2 AND state <> 'closed'" + lock + ")"
	return "INSERT INTO leases (" + leaseColumns + ") SELECT " + strings.Join(columns, ", ") + " FROM (VALUES", "(" + strings.Join(marks, ", ") + ")", ") v"
}

func checkLease(l *broker.Lease) error {
	switch l.State {
	case broker.LeaseIntent, broker.LeaseLive:
	default:
		return fmt.Errorf("lease %s: it cannot be issued in state %q", l.ID, l.State)
	}
	if l.ID == "" || l.TaskID == "" || l.IssuedAt.IsZero() || !l.ExpiresAt.After(l.IssuedAt) {
		return errors.New("a lease needs an id, a task, and an expiry after its issue")
	}
	err := storable(l.ID, l.TaskID, l.Sandbox, l.Owner, l.Provider, l.Resource, l.Binding.JKT, l.Binding.X5T, string(l.Class), l.RequestID, l.Rule, l.Tool, l.Txn, l.ParentID, l.Delivery)
	if err != nil {
		return fmt.Errorf("lease %s: %w", l.ID, err)
	}
	return nil
}

func appendLease(args []any, l *broker.Lease) []any {
	return append(args, l.ID, l.TaskID, l.Sandbox, l.Owner, l.Provider, l.Scopes.String(), l.Resource, l.Binding.JKT, l.Binding.X5T, string(l.Class),
		l.RequestID, l.Rule, l.Tool, l.Txn, millis(l.IssuedAt), millis(l.ExpiresAt), string(l.State), int64(0), "", "", l.ParentID, l.Delivery)
}

// Leases implements broker.Journal.
func (s *Store) Leases(ctx context.Context, f broker.LeaseFilter) ([]broker.Lease, error) {
	if f.Now.IsZero() {
		return nil, errors.New("leases: the filter needs Now")
	}
	now := millis(f.Now)
	var w where
	w.equal("l.task_id", f.TaskID)
	if f.Tree != "" && !f.Upstream {
		w.add("l.task_id IN "+tree, f.Tree, f.Tree, f.Tree, f.Tree)
	}
	w.equal("l.owner", f.Owner)
	w.equal("l.sandbox", f.Sandbox)
	w.equal("l.provider", f.Provider)
	if len(f.Parents) > 0 {
		w.in("l.parent_id", f.Parents)
		w.add("l.parent_id <> ''") // the partial index
	}
	switch {
	case f.Upstream && f.Tree != "":
		w.add("l.id IN (SELECT u.lease_id FROM upstream_leases u WHERE u.task_id IN "+tree+")", f.Tree, f.Tree, f.Tree, f.Tree)
	case f.Upstream && f.TaskID != "":
		w.add("l.id IN (SELECT u.lease_id FROM upstream_leases u WHERE u.task_id = ?)", f.TaskID)
	case f.Upstream:
		w.add("l.id IN (SELECT u.lease_id FROM upstream_leases u)")
	}
	if !f.From.IsZero() {
		w.add("l.issued_at >= ?", millis(f.From))
	}
	if !f.To.IsZero() {
		w.add("l.issued_at < ?", millis(f.To))
	}
	if !f.ExpiresAfter.IsZero() {
		w.add("l.expires_at > ?", millis(f.ExpiresAfter))
	}
	if f.State != "" {
		if err := s.byState(ctx, &w, f); err != nil {
			return nil, fmt.Errorf("leases: %w", s.engine.explain(err))
		}
	}
	if len(f.Parents) > maxIDs {
		return nil, fmt.Errorf("leases: %d parents: ask for at most %d at a time", len(f.Parents), maxIDs)
	}
	order, limit, err := w.page("l.id", f.Page, f.IDs)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	handle := "''"
	if f.Handles {
		handle = "coalesce(u.handle, '')"
	}
	text := "SELECT " + leaseFields + ", " + leaseState("nullif(t.closed_at, 0)", "u.fence > 0") +
		", coalesce(t.closed_at, 0), coalesce(t.closed_by, ''), coalesce(t.cause, ''), " + upstreamFields + ", " + handle +
		" FROM (SELECT " + leaseColumns + " FROM leases l" + w.String() + order + limit + ") l " +
		"LEFT JOIN tasks t ON t.id = l.task_id LEFT JOIN upstream_leases u ON u.lease_id = l.id" + order
	out, err := collect(ctx, s.engine.read(), text, append([]any{now}, w.args...), scanLeaseHandle)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", s.engine.explain(err))
	}
	return out, nil
}

// byState adds the condition on the derived state, and for the two kinds of
// listings that a start needs, how to find the few among the many.
func (s *Store) byState(ctx context.Context, w *where, f broker.LeaseFilter) error {
	now := millis(f.Now)
	// The conditions say for each state what leaseState derives, and do not compare
	// with what it returns: of such a comparison PostgreSQL believes that it leaves
	// next to nothing, and then sorts everything instead of stopping at the limit.
	const (
		over  = "coalesce(" + ended + ", l.expires_at) < l.expires_at" // its task was closed before its expiry
		fence = "(SELECT u.fence FROM upstream_leases u WHERE u.lease_id = l.id)"
	)
	switch f.State {
	case broker.LeaseRevoked:
		w.add("(l.state = 'revoked' OR l.state = 'live' AND " + over + " AND " + fence + " IS NULL)")
	case broker.LeaseExpired:
		w.add("(l.state = 'expired' OR l.state = 'live' AND NOT "+over+" AND l.expires_at <= ? AND "+fence+" IS NULL)", now)
	case broker.LeaseRevoking:
		w.add("(l.state = 'revoking' OR l.state = 'live' AND ("+over+" OR l.expires_at <= ?) AND "+fence+" > 0)", now)
		if f.TaskID != "" { // what has ended is out of it: a task's end asks again and again
			w.add("l.id IN (SELECT u.lease_id FROM upstream_leases u WHERE u.task_id = ? AND u.next_at > 0)", f.TaskID)
			break
		}
		// The partial index, and of the live ones at third parties those whose time is
		// over: they are due at their expiry.
		w.add("l.id IN (SELECT o.id FROM leases o WHERE o.state IN ('intent', 'revoking') "+
			"UNION ALL SELECT u.lease_id FROM upstream_leases u WHERE u.provider > '' AND u.next_at > 0 AND u.next_at <= ?)", now)
	case broker.LeaseLive:
		if f.Page.After == "" && !f.Page.Desc {
			// Skip everything that expired before the first that did not: ids sort by time.
			first, err := collect(ctx, s.engine.read(), "SELECT coalesce(min(id || ''), '') FROM leases WHERE expires_at > ?", []any{now},
				func(row scan) (id string, err error) { return id, row(&id) })
			if err != nil {
				return err
			}
			w.add("l.id >= ?", first[0])
		}
		// "+ 0" keeps the index on expires_at out of it: a page in the order of
		// ids comes from the primary key, not from sorting all live leases.
		w.add("l.state = 'live' AND l.expires_at + 0 > ? AND NOT "+over, now)
	default:
		w.add("l.state = ?", string(f.State))
		if f.State == broker.LeaseIntent {
			w.add("l.state IN ('intent', 'revoking')") // the partial index
		}
	}
	return nil
}

func scanLease(row scan) (broker.Lease, error) {
	l, _, err := scanLeaseRow(row)
	return l, err
}

// scanLeaseHandle reads a lease with its sealed handle.
func scanLeaseHandle(row scan) (broker.Lease, error) {
	var handle string
	l, _, err := scanLeaseRow(row, &handle)
	if err == nil && l.Upstream != nil {
		l.Upstream.Handle = handle
	}
	return l, err
}

// scanLeaseRow reads a lease, and whatever more the query has at its end; fence is
// that of a lease at a third party.
func scanLeaseRow(row scan, more ...any) (l broker.Lease, fence int64, err error) {
	var scope string
	var issued, expires, revoked, closed int64
	var derived broker.LeaseState
	var closedBy string
	var cause broker.Cause
	var up upstreamRow
	dest := []any{&l.ID, &l.TaskID, &l.Sandbox, &l.Owner, &l.Provider, &scope, &l.Resource, &l.Binding.JKT, &l.Binding.X5T, &l.Class, &l.RequestID, &l.Rule, &l.Tool,
		&l.Txn, &issued, &expires, &l.State, &revoked, &l.RevokedBy, &l.Cause, &l.ParentID, &l.Delivery, &derived, &closed, &closedBy, &cause}
	if err := row(append(append(dest, up.dest()...), more...)...); err != nil {
		return l, 0, err
	}
	l.IssuedAt, l.ExpiresAt, l.RevokedAt = fromMillis(issued), fromMillis(expires), fromMillis(revoked)
	l.Upstream = up.upstream()
	if l.State == broker.LeaseLive && (derived == broker.LeaseRevoked || derived == broker.LeaseRevoking) {
		l.RevokedAt = l.ExpiresAt
		if closed > 0 && closed < expires {
			// A lease that lost the race against the end of its task was never valid.
			l.RevokedAt, l.RevokedBy, l.Cause = fromMillis(max(closed, issued)), closedBy, cause
		}
	}
	l.State = derived
	if l.Scopes, err = scopes.ParseSet(scope); err != nil {
		return l, 0, fmt.Errorf("lease %s: the stored row is damaged: %w", l.ID, err)
	}
	return l, up.fence, nil
}
