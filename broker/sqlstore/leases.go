package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes"
)

// leaseStore reads, lists and counts leases.
type leaseStore struct {
	engine *engine
}

const (
	insertLease = "INSERT INTO leases (" + leaseColumns + ") VALUES"

	leaseColumns = "id, task_id, sandbox, owner, provider, scope, resource, jkt, x5t, class, request_id, rule, tool, txn, " +
		"issued_at, expires_at, state, revoked_at, revoked_by, cause, parent_id, delivery"
	leaseWidth = 22

	// ended is the time when the task of lease l was closed, or NULL. It is a subquery
	// and not a join: a page in the order of ids then comes from the primary key and
	// stops at its limit, regardless of the number of rows the planner expects. It does
	// not say "state = 'closed'": that is the condition of a partial index, which is
	// slower for a single task.
	ended = "(SELECT nullif(t.closed_at, 0) FROM tasks t WHERE t.id = l.task_id)"
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
	text := "SELECT " + leaseFields + ", " + leaseState("nullif(t.closed_at, 0)", "u.fence > 0") +
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
		// The partial index, and of the live leases at third parties the expired ones:
		// they are due at their expiry.
		w.add("l.id IN (SELECT o.id FROM leases o WHERE o.state IN ('intent', 'revoking') "+
			"UNION ALL SELECT u.lease_id FROM upstream_leases u WHERE u.provider > '' AND u.next_at > 0 AND u.next_at <= ?)", now)
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
			// A lease inserted after its task was closed was never valid.
			l.RevokedAt, l.RevokedBy, l.Cause = fromMillis(max(closed, issued)), closedBy, cause
		}
	}
	l.State = derived
	if l.Scopes, err = scopes.ParseSet(scope); err != nil {
		return l, 0, fmt.Errorf("lease %s: the stored row is damaged: %w", l.ID, err)
	}
	return l, up.fence, nil
}

// LeaseTally implements broker.Listing.
func (l *leaseStore) LeaseTally(ctx context.Context, now time.Time) (broker.LeaseTally, error) {
	live, err1 := l.states(ctx, now, " WHERE l.expires_at > ? ORDER BY l.expires_at DESC", millis(now))
	pending, err2 := l.states(ctx, now, " WHERE l.state IN ('intent', 'revoking') ORDER BY l.id")
	over, err3 := l.states(ctx, now, " WHERE l.state = 'unconfirmed' ORDER BY l.id")
	recent, err4 := l.states(ctx, now, " ORDER BY l.id DESC")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return broker.LeaseTally{}, fmt.Errorf("lease tally: %w", l.engine.explain(err))
	}
	return broker.LeaseTally{
		Live: of(live, broker.LeaseLive), Intent: of(pending, broker.LeaseIntent), Revoking: of(pending, broker.LeaseRevoking), Unconfirmed: of(over, broker.LeaseUnconfirmed), Recent: recent,
	}, nil
}

func tallyText(which string) string {
	return "SELECT d, count(*) FROM (SELECT " + derived + " AS d FROM (SELECT l.id, l.task_id, l.state, l.expires_at FROM leases l" + which + " LIMIT " + strconv.Itoa(broker.TallyCap) + ") l " +
		"LEFT JOIN tasks t ON t.id = l.task_id LEFT JOIN upstream_leases u ON u.lease_id = l.id) x GROUP BY d"
}

// states counts the derived states of the leases selected by which, up to TallyCap
// leases.
func (l *leaseStore) states(ctx context.Context, now time.Time, which string, args ...any) (map[broker.LeaseState]int, error) {
	out := map[broker.LeaseState]int{}
	_, err := collect(ctx, l.engine.read(), tallyText(which), append([]any{millis(now)}, args...), func(row scan) (n int, err error) {
		var state broker.LeaseState
		err = row(&state, &n)
		out[state] = n
		return n, err
	})
	return out, err
}

// of returns the count of one state. More is set when the count stopped at TallyCap.
func of(states map[broker.LeaseState]int, state broker.LeaseState) broker.Count {
	all := 0
	for _, n := range states {
		all += n
	}
	return broker.Count{N: states[state], More: all >= broker.TallyCap}
}

// skew is the tolerated difference between the clocks of replicas, in milliseconds. Ids
// are made from these clocks, and a list narrowed by time of issue selects by id.
const skew = 60_000

// leaseWindow is the part of the table that a page reads, in the order of an index, and
// the conditions checked on its rows.
type leaseWindow struct {
	in    where // conditions that an index answers
	rest  where // conditions checked on each row of the window
	order string
	whole bool // in selects a bounded number of rows: needs no order and no limit
}

// LeaseList implements broker.Listing.
func (l *leaseStore) LeaseList(ctx context.Context, q broker.LeaseQuery) (broker.LeaseSlice, error) {
	if q.Now.IsZero() || q.Limit < 1 || q.Limit > maxLimit || q.Look <= q.Limit {
		return broker.LeaseSlice{}, errors.New("lease list: the query needs Now, a Limit of 1 to 1000 and a Look above it")
	}
	out, err := l.leaseList(ctx, q)
	if err != nil {
		return broker.LeaseSlice{}, fmt.Errorf("lease list: %w", l.engine.explain(err))
	}
	return out, nil
}

func (l *leaseStore) leaseList(ctx context.Context, q broker.LeaseQuery) (broker.LeaseSlice, error) {
	w, err := l.window(ctx, q)
	if err != nil {
		return broker.LeaseSlice{}, err
	}
	look := q.Look
	if len(w.rest.conds) == 0 {
		look = q.Limit + 1 // no further condition: every row counts
	}
	text, args := w.text(look, q.Limit+1)
	found, err := collect(ctx, l.engine.read(), text, append([]any{millis(q.Now)}, args...), scanLease)
	if err != nil {
		return broker.LeaseSlice{}, err
	}
	out := broker.LeaseSlice{Leases: found}
	switch {
	case len(found) > q.Limit:
		out.Leases, out.More = found[:q.Limit], true
		last := out.Leases[q.Limit-1]
		out.Stop = broker.LeasePlace{ID: last.ID, Ending: last.ExpiresAt}
	case len(w.rest.conds) > 0 && !w.whole:
		if out.Stop, out.More, err = l.windowEnd(ctx, w, look); err != nil {
			return out, err
		}
		out.Short = out.More
	}
	if q.Back {
		slices.Reverse(out.Leases)
	}
	return out, nil
}

// text returns the statement for one page of the window. States are derived before rows
// are filtered, for the rows of the window only.
func (w *leaseWindow) text(look, limit int) (string, []any) {
	inner := " ORDER BY " + w.order + " LIMIT " + strconv.Itoa(look)
	if w.whole {
		inner = ""
	}
	return "SELECT " + leaseFields + ", " + derived + ", coalesce(t.closed_at, 0), coalesce(t.closed_by, ''), coalesce(t.cause, ''), " + upstreamFields +
		" FROM (SELECT " + leaseColumns + " FROM leases l" + w.in.String() + inner + ") l " +
		"LEFT JOIN tasks t ON t.id = l.task_id LEFT JOIN upstream_leases u ON u.lease_id = l.id" + w.rest.String() +
		" ORDER BY " + w.order + " LIMIT " + strconv.Itoa(limit), append(slices.Clone(w.in.args), w.rest.args...)
}

// derived is leaseState for a statement that joins t and u.
var derived = leaseState("nullif(t.closed_at, 0)", "u.fence > 0")

// windowEnd returns the last place of a full window and whether rows follow it.
func (l *leaseStore) windowEnd(ctx context.Context, w *leaseWindow, look int) (broker.LeasePlace, bool, error) {
	ends, err := collect(ctx, l.engine.read(), "SELECT l.id, l.expires_at FROM leases l"+w.in.String()+" ORDER BY "+w.order+" LIMIT 2 OFFSET "+strconv.Itoa(look-1), w.in.args,
		func(row scan) (p broker.LeasePlace, err error) {
			var at int64
			err = row(&p.ID, &at)
			p.Ending = fromMillis(at)
			return p, err
		})
	if err != nil || len(ends) < 2 {
		return broker.LeasePlace{}, false, err
	}
	return ends[0], true, nil
}

// window chooses the index for a query.
func (l *leaseStore) window(ctx context.Context, q broker.LeaseQuery) (*leaseWindow, error) {
	w := &leaseWindow{}
	now := millis(q.Now)
	if q.State != "" {
		w.rest.add(derived+" = ?", now, string(q.State))
	}
	if q.Text != "" {
		w.rest.add("replace(l.scope, ?, '') <> l.scope", q.Text)
	}
	w.rest.equal("l.sandbox", q.Sandbox)
	names := &w.in
	switch {
	case q.Order == broker.LeaseEnding:
		w.ending(q, now)
		names = &w.rest
	case q.State == broker.LeaseLive:
		few, err := l.fewLive(ctx, now, q.Look)
		if err != nil {
			return nil, err
		}
		if w.byID(q); few {
			w.whole = true
			w.rest.conds, w.rest.args = append(w.in.conds, w.rest.conds...), append(w.in.args, w.rest.args...)
			w.in = where{}
			w.in.add("l.expires_at > ?", now)
			names = &w.rest
		}
	default:
		w.byID(q)
		w.byRare(q.State, now)
	}
	names.equal("l.task_id", q.TaskID)
	names.equal("l.owner", q.Owner)
	names.equal("l.provider", q.Provider)
	w.issued(q, names)
	return w, nil
}

// byID orders the window by id.
func (w *leaseWindow) byID(q broker.LeaseQuery) {
	op, dir := " > ?", " ASC"
	if (q.Order != broker.LeaseOldest) != q.Back {
		op, dir = " < ?", " DESC"
	}
	if w.order = "l.id" + dir; q.Place.ID != "" {
		w.in.add("l.id"+op, q.Place.ID)
	}
}

// ending orders the window of live leases by expiry.
func (w *leaseWindow) ending(q broker.LeaseQuery, now int64) {
	op, dir := ">", ""
	if q.Back {
		op, dir = "<", " DESC"
	}
	w.order = "l.expires_at" + dir + ", l.id" + dir
	w.in.add("l.expires_at > ?", now)
	w.rest.add(derived+" = 'live'", now)
	if at := millis(q.Place.Ending); q.Place.ID != "" {
		w.in.add("l.expires_at "+op+"= ? AND (l.expires_at "+op+" ? OR l.id "+op+" ?)", at, at, q.Place.ID)
	}
}

// byRare finds leases in a rare state without reading the others.
func (w *leaseWindow) byRare(state broker.LeaseState, now int64) {
	switch state {
	case broker.LeaseIntent:
		w.in.add("l.state = 'intent' AND l.state IN ('intent', 'revoking')") // the partial index
	case broker.LeaseRevoking:
		w.in.add("l.id IN (SELECT o.id FROM leases o WHERE o.state IN ('intent', 'revoking') "+
			"UNION ALL SELECT u.lease_id FROM upstream_leases u WHERE u.provider > '' AND u.next_at > 0 AND u.next_at <= ?)", now)
	case broker.LeaseUnconfirmed:
		w.in.add("l.state = 'unconfirmed'")
	}
}

// fewLive reports whether at most n leases have not expired. Those are then read by
// expiry, which leaves out all expired ones.
func (l *leaseStore) fewLive(ctx context.Context, now int64, n int) (bool, error) {
	many, err := exists(ctx, l.engine.read(), "SELECT 1 FROM leases WHERE expires_at > ? LIMIT 1 OFFSET "+strconv.Itoa(n), now)
	return !many, err
}

// issued narrows a window by time of issue: exactly in the rows, and by the neighbouring
// ids, which the index on times finds.
func (w *leaseWindow) issued(q broker.LeaseQuery, names *where) {
	if !q.From.IsZero() {
		w.rest.add("l.issued_at >= ?", millis(q.From))
		names.add("l.id > coalesce((SELECT a.id FROM leases a WHERE a.issued_at < ? ORDER BY a.issued_at DESC LIMIT 1), '')", millis(q.From)-skew)
	}
	if !q.To.IsZero() {
		w.rest.add("l.issued_at < ?", millis(q.To))
		names.add("l.id < coalesce((SELECT z.id FROM leases z WHERE z.issued_at >= ? ORDER BY z.issued_at LIMIT 1), 'z')", millis(q.To)+skew) // 'z' sorts after every id in every collation
	}
}
