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
	if q.Resource != "" {
		n := len(out.Leases)
		out.Leases = slices.DeleteFunc(out.Leases, func(l broker.Lease) bool { return !touches(l.Scopes, q.Resource) })
		out.Short = out.Short || out.More && len(out.Leases) < n
	}
	if q.Back {
		slices.Reverse(out.Leases)
	}
	return out, nil
}

// touches reports whether a set of scopes allows an action on a resource or on one below it.
func touches(set scopes.Set, resource string) bool {
	return slices.ContainsFunc(set.Scopes(), func(s scopes.Scope) bool {
		for _, r := range []string{resource, resource + "/**"} {
			if at, err := scopes.New(s.Provider(), r, s.Action()); err == nil && s.Overlaps(at) {
				return true
			}
		}
		return false
	})
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
	if q.Resource != "" { // a superset: the scope has the beginning of the resource, or a wildcard
		start, _, _ := strings.Cut(q.Resource, scopes.Any)
		w.rest.add("(? = '' OR replace(l.scope, ?, '') <> l.scope OR replace(l.scope, '*', '') <> l.scope)", start, start)
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
		w.in.add(mayRevoke, now)
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
