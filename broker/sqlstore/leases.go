package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// leaseStore reads, lists and counts leases.
type leaseStore struct {
	engine *engine
}

const (
	insertLease = "INSERT INTO leases (" + leaseColumns + ") VALUES"

	leaseColumns = "id, task_id, sandbox, owner, provider, scope, resource, jkt, x5t, class, request_id, rule, tool, txn, " +
		"issued_at, expires_at, state, revoked_at, revoked_by, cause, parent_id, delivery, content, max_amount"
	leaseWidth = 24

	// ended is the time when the task of lease l was closed, or NULL. It is a subquery
	// and not a join: a page in the order of ids then comes from the primary key and
	// stops at its limit, regardless of the number of rows the planner expects. It does
	// not say "state = 'closed'": that is the condition of a partial index, which is
	// slower for a single task.
	ended = "(SELECT nullif(t.closed_at, 0) FROM tasks t WHERE t.id = l.task_id)"

	// mayRevoke finds the few rows that can be in state revoking at the time in its one
	// parameter: the rows of a partial index, and the expired live leases at third
	// parties, which are due at their expiry.
	mayRevoke = "l.id IN (SELECT o.id FROM leases o WHERE o.state IN ('intent', 'revoking') " +
		"UNION ALL SELECT u.lease_id FROM upstream_leases u WHERE u.provider > '' AND u.next_at > 0 AND u.next_at <= ?)"
)

// leaseNumbers are the positions of the numeric columns in leaseColumns.
var leaseNumbers = [...]int{14, 15, 17} // issued_at, expires_at, revoked_at

// leaseFields are the columns of lease l.
var leaseFields = "l." + strings.ReplaceAll(leaseColumns, ", ", ", l.")

// leaseState returns the SQL expression that derives the state at the time in its one
// parameter. ended is when the task was closed; upstream says whether the lease is at a third
// party. Only leases stored as live are derived. An intent or a pending revocation is
// settled by the provider's answer, never by the clock: the clock makes it due for
// revocation at most.
func leaseState(ended, upstream string) string {
	return "CASE WHEN l.state <> 'live' THEN l.state " +
		"WHEN " + ended + " < l.expires_at THEN CASE WHEN " + upstream + " THEN 'revoking' ELSE 'revoked' END " +
		"WHEN l.expires_at <= ? THEN CASE WHEN " + upstream + " THEN 'revoking' ELSE 'expired' END ELSE 'live' END"
}

// derived is leaseState for a statement that joins t and u.
var derived = leaseState("nullif(t.closed_at, 0)", "u.fence > 0")

// leaseRows returns the INSERT of own tokens in three parts: the text before the rows,
// one row, and the text after them. The task of each row is looked up. A closed or
// unknown task gives NULL, which the column refuses (see engine.shut). lock keeps other
// processes from closing the task before this transaction commits. The subquery stands
// once beside the rows and not in each row, because PostgreSQL sets up every subquery of
// a text at each run.
func leaseRows(lock string) (head, row, tail string) {
	columns, marks := make([]string, leaseWidth), make([]string, leaseWidth)
	for i := range columns {
		columns[i], marks[i] = "column"+strconv.Itoa(i+1), "?"
	}
	for _, i := range leaseNumbers {
		marks[i] = "CAST(? AS BIGINT)" // PostgreSQL types parameters in VALUES as text
	}
	columns[1] = "(SELECT id FROM tasks WHERE id = column2 AND state <> 'closed'" + lock + ")"
	return "INSERT INTO leases (" + leaseColumns + ") SELECT " + strings.Join(columns, ", ") + " FROM (VALUES", "(" + strings.Join(marks, ", ") + ")", ") v"
}

func checkLease(l *broker.Lease) error {
	switch l.State {
	case broker.LeaseIntent, broker.LeaseLive:
	default:
		return fmt.Errorf("lease %s: state %q is not a state for a new lease", l.ID, l.State)
	}
	if l.ID == "" || l.TaskID == "" || l.IssuedAt.IsZero() || !l.ExpiresAt.After(l.IssuedAt) {
		return errors.New("a lease needs an id, a task, and an expiry after its issue")
	}
	err := storable(l.ID, l.TaskID, l.Sandbox, l.Owner, l.Provider, l.Resource, l.Binding.JKT, l.Binding.X5T, string(l.Class), l.RequestID, l.Rule, l.Tool, l.Txn, l.ParentID, l.Delivery, l.Content)
	if err != nil {
		return fmt.Errorf("lease %s: %w", l.ID, err)
	}
	return nil
}

func appendLease(args []any, l *broker.Lease) []any {
	return append(args, l.ID, l.TaskID, l.Sandbox, l.Owner, l.Provider, l.Scopes.String(), l.Resource, l.Binding.JKT, l.Binding.X5T, string(l.Class),
		l.RequestID, l.Rule, l.Tool, l.Txn, millis(l.IssuedAt), millis(l.ExpiresAt), string(l.State), int64(0), "", "", l.ParentID, l.Delivery, l.Content, l.MaxAmount.String())
}

// Leases implements broker.Store.
func (l *leaseStore) Leases(ctx context.Context, f broker.LeaseFilter) ([]broker.Lease, error) {
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
	w.in("l.resource", f.Resources)
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
		if err := l.byState(ctx, &w, f); err != nil {
			return nil, fmt.Errorf("leases: %w", l.engine.explain(err))
		}
	}
	if n := max(len(f.Parents), len(f.Resources)); n > maxIDs {
		return nil, fmt.Errorf("leases: %d parents or resources: ask for at most %d at a time", n, maxIDs)
	}
	order, limit, err := w.page("l.id", f.Page, f.IDs)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	handle := "''"
	if f.Handles {
		handle = "coalesce(u.handle, '')"
	}
	text := "SELECT " + leaseFields + ", " + derived +
		", coalesce(t.closed_at, 0), coalesce(t.closed_by, ''), coalesce(t.cause, ''), " + upstreamFields + ", " + handle +
		" FROM (SELECT " + leaseColumns + " FROM leases l" + w.String() + order + limit + ") l " +
		"LEFT JOIN tasks t ON t.id = l.task_id LEFT JOIN upstream_leases u ON u.lease_id = l.id" + order
	out, err := collect(ctx, l.engine.read(), text, append([]any{now}, w.args...), scanLeaseHandle)
	if err != nil {
		return nil, fmt.Errorf("leases: %w", l.engine.explain(err))
	}
	return out, nil
}

// byState adds the condition on the derived state. For the two listings that every start
// of ebb needs, it also adds a condition that finds the few rows through an index.
func (l *leaseStore) byState(ctx context.Context, w *where, f broker.LeaseFilter) error {
	now := millis(f.Now)
	// The conditions repeat the rules of leaseState for each state instead of comparing
	// with its result. PostgreSQL expects such a comparison to match very few rows, and
	// then sorts all rows instead of stopping at the limit.
	const (
		over  = "coalesce(" + ended + ", l.expires_at) < l.expires_at" // the task was closed before the lease expired
		fence = "(SELECT u.fence FROM upstream_leases u WHERE u.lease_id = l.id)"
	)
	switch f.State {
	case broker.LeaseRevoked:
		w.add("(l.state = 'revoked' OR l.state = 'live' AND " + over + " AND " + fence + " IS NULL)")
	case broker.LeaseExpired:
		w.add("(l.state = 'expired' OR l.state = 'live' AND NOT "+over+" AND l.expires_at <= ? AND "+fence+" IS NULL)", now)
	case broker.LeaseRevoking:
		w.add("(l.state = 'revoking' OR l.state = 'live' AND ("+over+" OR l.expires_at <= ?) AND "+fence+" > 0)", now)
		if f.TaskID != "" { // excludes settled leases: the close of a task asks repeatedly
			w.add("l.id IN (SELECT u.lease_id FROM upstream_leases u WHERE u.task_id = ? AND u.next_at > 0)", f.TaskID)
			break
		}
		w.add(mayRevoke, now)
	case broker.LeaseLive:
		if f.Page.After == "" && !f.Page.Desc {
			// Skip all leases that expired before the first unexpired one: ids sort by
			// time.
			first, err := collect(ctx, l.engine.read(), "SELECT coalesce(min(id || ''), '') FROM leases WHERE expires_at > ?", []any{now},
				func(row scan) (id string, err error) { return id, row(&id) })
			if err != nil {
				return err
			}
			w.add("l.id >= ?", first[0])
		}
		// "+ 0" keeps the planner from the index on expires_at: a page in the order of
		// ids then comes from the primary key and not from sorting all live leases.
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

// scanLeaseRow reads a lease and the further columns at the end of the query. fence is 0
// for an own token.
func scanLeaseRow(row scan, more ...any) (l broker.Lease, fence int64, err error) {
	var scope, most string
	var issued, expires, revoked, closed int64
	var derived broker.LeaseState
	var closedBy string
	var cause broker.Cause
	var up upstreamRow
	dest := []any{&l.ID, &l.TaskID, &l.Sandbox, &l.Owner, &l.Provider, &scope, &l.Resource, &l.Binding.JKT, &l.Binding.X5T, &l.Class, &l.RequestID, &l.Rule, &l.Tool,
		&l.Txn, &issued, &expires, &l.State, &revoked, &l.RevokedBy, &l.Cause, &l.ParentID, &l.Delivery, &l.Content, &most, &derived, &closed, &closedBy, &cause}
	if err := row(append(append(dest, up.dest()...), more...)...); err != nil {
		return l, 0, err
	}
	l.IssuedAt, l.ExpiresAt, l.RevokedAt = fromMillis(issued), fromMillis(expires), fromMillis(revoked)
	l.Upstream = up.upstream()
	if l.State == broker.LeaseLive && (derived == broker.LeaseRevoked || derived == broker.LeaseRevoking) {
		l.RevokedAt = l.ExpiresAt
		if closed > 0 && closed < expires {
			// A lease inserted after its task was closed was never valid.
			l.RevokedAt, l.RevokedBy, l.Cause = fromMillis(max(closed, issued)), closedBy, cause
		}
	}
	l.State = derived
	var errMost error
	l.Scopes, err = scopes.ParseSet(scope)
	l.MaxAmount, errMost = amount.ParseLimits(most)
	if err := errors.Join(err, errMost); err != nil {
		return l, 0, fmt.Errorf("lease %s: the stored row is damaged: %w", l.ID, err)
	}
	return l, up.fence, nil
}
