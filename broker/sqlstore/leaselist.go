package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"ebb/broker"
)

// skew is how far the clocks of replicas may be apart for a list that is narrowed by
// time of issue to find everything: ids are made by the same clocks.
const skew = 60_000

// leaseWindow is the part of the table that a page looks at, in the order of an index,
// and what it looks for there.
type leaseWindow struct {
	in    where // answered by an index
	rest  where // looked for in the rows of the window
	order string
	whole bool // in holds a bounded number: no place in its order, no limit
}

// LeaseList implements broker.Listing.
func (s *Store) LeaseList(ctx context.Context, q broker.LeaseQuery) (broker.LeaseSlice, error) {
	if q.Now.IsZero() || q.Limit < 1 || q.Limit > maxLimit || q.Look <= q.Limit {
		return broker.LeaseSlice{}, errors.New("lease list: the query needs Now, a Limit of 1 to 1000 and a Look above it")
	}
	out, err := s.leaseList(ctx, q)
	if err != nil {
		return broker.LeaseSlice{}, fmt.Errorf("lease list: %w", s.engine.explain(err))
	}
	return out, nil
}

func (s *Store) leaseList(ctx context.Context, q broker.LeaseQuery) (broker.LeaseSlice, error) {
	w, err := s.window(ctx, q)
	if err != nil {
		return broker.LeaseSlice{}, err
	}
	look := q.Look
	if len(w.rest.conds) == 0 {
		look = q.Limit + 1 // every row counts
	}
	text, args := w.text(look, q.Limit+1)
	found, err := collect(ctx, s.engine.read(), text, append([]any{millis(q.Now)}, args...), scanLease)
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
		if out.Stop, out.More, err = s.windowEnd(ctx, w, look); err != nil {
			return out, err
		}
		out.Short = out.More
	}
	if q.Back {
		slices.Reverse(out.Leases)
	}
	return out, nil
}

// text is one page of the window. The states are derived before the rows are sorted
// out, on as many rows as the window has at most.
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

// derived is leaseState where t and u are joined.
var derived = leaseState("nullif(t.closed_at, 0)", "u.fence > 0")

// windowEnd is the last place of a full window, and whether there is anything after it.
func (s *Store) windowEnd(ctx context.Context, w *leaseWindow, look int) (broker.LeasePlace, bool, error) {
	ends, err := collect(ctx, s.engine.read(), "SELECT l.id, l.expires_at FROM leases l"+w.in.String()+" ORDER BY "+w.order+" LIMIT 2 OFFSET "+strconv.Itoa(look-1), w.in.args,
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

// window chooses the index.
func (s *Store) window(ctx context.Context, q broker.LeaseQuery) (*leaseWindow, error) {
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
		few, err := s.fewLive(ctx, now, q.Look)
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

// byID is the window in the order of ids.
func (w *leaseWindow) byID(q broker.LeaseQuery) {
	op, dir := " > ?", " ASC"
	if (q.Order != broker.LeaseOldest) != q.Back {
		op, dir = " < ?", " DESC"
	}
	if w.order = "l.id" + dir; q.Place.ID != "" {
		w.in.add("l.id"+op, q.Place.ID)
	}
}

// ending is the window in the order in which live ones expire.
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

// byRare finds the states that few are in without going through the others.
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

// fewLive reports whether at most n have not expired: then they are looked at by
// their expiry, which leaves out everything that is over.
func (s *Store) fewLive(ctx context.Context, now int64, n int) (bool, error) {
	many, err := exists(ctx, s.engine.read(), "SELECT 1 FROM leases WHERE expires_at > ? LIMIT 1 OFFSET "+strconv.Itoa(n), now)
	return !many, err
}

// issued narrows a window by time of issue: exactly in the rows, and by the ids
// before and after, which the index on times finds.
func (w *leaseWindow) issued(q broker.LeaseQuery, names *where) {
	if !q.From.IsZero() {
		w.rest.add("l.issued_at >= ?", millis(q.From))
		names.add("l.id > coalesce((SELECT a.id FROM leases a WHERE a.issued_at < ? ORDER BY a.issued_at DESC LIMIT 1), '')", millis(q.From)-skew)
	}
	if !q.To.IsZero() {
		w.rest.add("l.issued_at < ?", millis(q.To))
		names.add("l.id < coalesce((SELECT z.id FROM leases z WHERE z.issued_at >= ? ORDER BY z.issued_at LIMIT 1), 'z')", millis(q.To)+skew) // after every id, however text is sorted
	}
}
