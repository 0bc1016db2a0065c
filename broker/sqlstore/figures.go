package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker"
)

// What figures read, each by an index on the time that bounds it.
const (
	// wasMade leaves out what a provider says that it never made.
	wasMade = "l.id NOT IN (SELECT u.lease_id FROM upstream_leases u WHERE u.dead_at > 0 AND u.dead_at >= ? AND u.proof = 'never')"

	// outcome is what has come of a request at the moment of its two parameters.
	outcome = "CASE WHEN state = 'issued' THEN 'taken' " +
		"WHEN state = 'approved' AND grant_until > ? THEN 'fetchable' " +
		"WHEN granted <> '' THEN 'untaken' " +
		"WHEN state = 'pending' AND expires_at > ? THEN 'waiting' " +
		"WHEN state IN ('denied', 'withdrawn') THEN state ELSE 'unanswered' END"

	figureRequests = "SELECT (created_at - ?) / ?, " + outcome + ", COUNT(*) FROM requests WHERE created_at >= ? AND created_at < ? GROUP BY 1, 2"

	figureRefused = "SELECT (at - ?) / ?, 'refused', COUNT(*) FROM audit_entries " +
		"WHERE kind = 'token.denied' AND kind <> 'lease.issued' AND at >= ? AND at < ? GROUP BY 1"

	issuedIn = " FROM leases l WHERE l.issued_at >= ? AND l.issued_at < ? AND l.state <> 'intent' AND " + wasMade

	figureIssued = "SELECT (l.issued_at - ?) / ?, 'issued', COUNT(*)" + issuedIn + " GROUP BY 1"

	// endedAt is since when lease l, of task t, is refused here, as scanLeaseRow says it.
	endedAt = "CASE WHEN l.revoked_at > 0 THEN l.revoked_at " +
		"WHEN l.state = 'live' AND t.closed_at > 0 AND t.closed_at < l.expires_at THEN CASE WHEN t.closed_at > l.issued_at THEN t.closed_at ELSE l.issued_at END " +
		"ELSE l.expires_at END"

	// No end is later than the expiry: whatever ended in the window expires after its beginning.
	figureEnded = "SELECT (e.ended - ?) / ?, CASE WHEN e.ended < e.expires_at THEN 'revoked' ELSE 'expired' END, COUNT(*) FROM (" +
		"SELECT l.expires_at, " + endedAt + " AS ended FROM leases l LEFT JOIN tasks t ON t.id = l.task_id " +
		"WHERE l.expires_at >= ? AND l.state <> 'intent' AND " + wasMade + ") e WHERE e.ended >= ? AND e.ended < ? GROUP BY 1, 2"

	figureScopes    = "SELECT l.scope, COUNT(*)" + issuedIn + " GROUP BY l.scope ORDER BY 2 DESC, 1 LIMIT ?"
	figureProviders = "SELECT l.provider, COUNT(*)" + issuedIn + " GROUP BY l.provider ORDER BY 2 DESC, 1 LIMIT ?"

	figureEnds = "SELECT cause, COUNT(*) FROM tasks WHERE state = 'closed' AND closed_at >= ? AND closed_at < ? GROUP BY cause ORDER BY 2 DESC, 1"

	// Deaths that were shown are ranked for each provider; only the rows at the ranks are returned.
	figureDeaths = "SELECT provider, n, rank, took FROM (SELECT provider, took, " +
		"ROW_NUMBER() OVER (PARTITION BY provider ORDER BY took) AS rank, COUNT(*) OVER (PARTITION BY provider) AS n FROM (" +
		"SELECT u.provider, u.dead_at - (" + endedAt + ") AS took FROM upstream_leases u JOIN leases l ON l.id = u.lease_id LEFT JOIN tasks t ON t.id = l.task_id " +
		"WHERE u.dead_at > 0 AND u.dead_at >= ? AND u.dead_at < ? AND u.proof NOT IN ('never', 'forced')) d) ranked " +
		"WHERE rank = (n * 50 + 99) / 100 OR rank = (n * 95 + 99) / 100 OR rank = n ORDER BY provider, rank"

	figureProofs = "SELECT u.provider, u.proof, COUNT(*) FROM upstream_leases u WHERE u.dead_at > 0 AND u.dead_at >= ? AND u.dead_at < ? " +
		"AND u.proof IN ('expired', 'never', 'forced') GROUP BY u.provider, u.proof"
)

// edge finds in one table at which moment a window has more rows than it may.
type edge struct {
	text string
	rows int
}

var edges = []edge{
	{"SELECT issued_at FROM leases WHERE issued_at >= ? AND issued_at < ? ORDER BY issued_at DESC LIMIT 1 OFFSET ?", broker.FigureRows},
	{"SELECT created_at FROM requests WHERE created_at >= ? AND created_at < ? ORDER BY created_at DESC LIMIT 1 OFFSET ?", broker.FigureRows},
	{"SELECT at FROM audit_entries WHERE kind = 'token.denied' AND kind <> 'lease.issued' AND at >= ? AND at < ? ORDER BY at DESC LIMIT 1 OFFSET ?", broker.FigureRows},
	{"SELECT closed_at FROM tasks WHERE state = 'closed' AND closed_at >= ? AND closed_at < ? ORDER BY closed_at DESC LIMIT 1 OFFSET ?", broker.FigureRows},
	{"SELECT dead_at FROM upstream_leases WHERE dead_at > 0 AND dead_at >= ? AND dead_at < ? ORDER BY dead_at DESC LIMIT 1 OFFSET ?", broker.FigureRows},
	{"SELECT voted_at FROM votes WHERE voted_at >= ? AND voted_at < ? ORDER BY voted_at DESC LIMIT 1 OFFSET ?", broker.FigureVotes},
}

// Figures implements broker.Statistics. It is several statements: what is written
// meanwhile may be in one of them and not in another.
func (s *Store) Figures(ctx context.Context, f broker.FigureFilter) (broker.Figures, error) {
	if f.Now.IsZero() || f.From.IsZero() || !f.From.Before(f.To) || f.Cell < time.Minute || f.To.Sub(f.From)/f.Cell > 1000 {
		return broker.Figures{}, errors.New("figures: they need the time, and a window of at most 1000 cells of a minute or more")
	}
	out, err := s.figures(ctx, f)
	if err != nil {
		return broker.Figures{}, fmt.Errorf("figures: %w", s.engine.explain(err))
	}
	return out, nil
}

func (s *Store) figures(ctx context.Context, f broker.FigureFilter) (broker.Figures, error) {
	out := broker.Figures{To: f.To, Cell: f.Cell}
	from, to, now := millis(f.From), millis(f.To), millis(f.Now)
	from, cut, err := s.cutAt(ctx, edges, from, to)
	if err != nil {
		return out, err
	}
	out.Cut = cut
	out.From = fromMillis(from)
	base := millis(out.From.Truncate(f.Cell))
	for at := fromMillis(base); at.Before(f.To); at = at.Add(f.Cell) {
		out.Cells = append(out.Cells, broker.FigureCell{Start: at})
	}
	cell := f.Cell.Milliseconds()
	texts := map[string][]any{figureRequests: {base, cell, now, now, from, to}, figureRefused: {base, cell, from, to}}
	byDay := f.Cell == wholeDay
	if !byDay {
		texts[figureIssued], texts[figureEnded] = []any{base, cell, from, to, from}, []any{base, cell, from, from, from, to}
	}
	for text, args := range texts {
		if err := s.fill(ctx, out.Cells, text, args); err != nil {
			return out, err
		}
	}
	busy := func(row scan) (b broker.Busy, err error) { return b, row(&b.Name, &b.N) }
	ends := func(row scan) (e broker.TaskEnds, err error) { return e, row(&e.Cause, &e.N) }
	var errs [5]error
	if byDay {
		errs[0] = s.leasesByDay(ctx, &out, f.Now, from, to)
	} else {
		out.Scopes, errs[0] = collect(ctx, s.engine.read(), figureScopes, []any{from, to, from, broker.FigureNames}, busy)
		out.Providers, errs[1] = collect(ctx, s.engine.read(), figureProviders, []any{from, to, from, broker.FigureNames}, busy)
	}
	out.Ends, errs[2] = collect(ctx, s.engine.read(), figureEnds, []any{from, to}, ends)
	out.Deaths, errs[3] = s.deaths(ctx, from, to)
	out.Decisions, errs[4] = s.decisions(ctx, from, to, now)
	return out, errors.Join(errs[:]...)
}

// cutAt is where a window begins that has no more rows than its edges allow.
func (s *Store) cutAt(ctx context.Context, edges []edge, from, to int64) (begin int64, cut bool, err error) {
	for _, e := range edges {
		over, err := collect(ctx, s.engine.read(), e.text, []any{from, to, e.rows}, func(row scan) (at int64, err error) { return at, row(&at) })
		if err != nil {
			return from, cut, err
		}
		if len(over) > 0 && over[0] >= from { // with all that are of the same moment
			from, cut = min(over[0]+1, to-1), true
		}
	}
	return from, cut, nil
}

// fill adds up counts by cell and what they are of.
func (s *Store) fill(ctx context.Context, cells []broker.FigureCell, text string, args []any) error {
	type line struct {
		cell, n int
		of      string
	}
	lines, err := collect(ctx, s.engine.read(), text, args, func(row scan) (l line, err error) { return l, row(&l.cell, &l.of, &l.n) })
	if err != nil {
		return err
	}
	for _, l := range lines {
		if l.cell < 0 || l.cell >= len(cells) {
			return fmt.Errorf("a row of cell %d of %d", l.cell, len(cells))
		}
		c := &cells[l.cell]
		to := map[string]*int{
			"taken": &c.Taken, "fetchable": &c.Fetchable, "untaken": &c.Untaken, "denied": &c.Denied, "unanswered": &c.Unanswered, "withdrawn": &c.Withdrawn,
			"waiting": &c.Waiting, "refused": &c.Refused, "issued": &c.Issued, "revoked": &c.Revoked, "expired": &c.Expired,
		}[l.of]
		*to += l.n
	}
	return nil
}
