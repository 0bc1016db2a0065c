package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// figureStore computes sums over a window for the statistics pages.
type figureStore struct {
	engine *engine

	days leaseDays
}

// The statements of Figures. Each uses an index on the time that bounds it.
const (
	// wasMade excludes credentials that the provider reports as never made.
	wasMade = "l.id NOT IN (SELECT u.lease_id FROM upstream_leases u WHERE u.dead_at > 0 AND u.dead_at >= ? AND u.proof = 'never')"

	// outcome is the state of a request at the moment given by its two parameters.
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

	// endedAt is the time from which lease l, of task t, is refused, as scanLeaseRow
	// computes it.
	endedAt = "CASE WHEN l.revoked_at > 0 THEN l.revoked_at " +
		"WHEN l.state = 'live' AND t.closed_at > 0 AND t.closed_at < l.expires_at THEN CASE WHEN t.closed_at > l.issued_at THEN t.closed_at ELSE l.issued_at END " +
		"ELSE l.expires_at END"

	// No lease ends after its expiry: a lease that ended in the window expires after its
	// beginning.
	figureEnded = "SELECT (e.ended - ?) / ?, CASE WHEN e.ended < e.expires_at THEN 'revoked' ELSE 'expired' END, COUNT(*) FROM (" +
		"SELECT l.expires_at, " + endedAt + " AS ended FROM leases l LEFT JOIN tasks t ON t.id = l.task_id " +
		"WHERE l.expires_at >= ? AND l.state <> 'intent' AND " + wasMade + ") e WHERE e.ended >= ? AND e.ended < ? GROUP BY 1, 2"

	figureScopes    = "SELECT l.scope, COUNT(*)" + issuedIn + " GROUP BY l.scope ORDER BY 2 DESC, 1 LIMIT ?"
	figureProviders = "SELECT l.provider, COUNT(*)" + issuedIn + " GROUP BY l.provider ORDER BY 2 DESC, 1 LIMIT ?"

	figureEnds = "SELECT cause, COUNT(*) FROM tasks WHERE state = 'closed' AND closed_at >= ? AND closed_at < ? GROUP BY cause ORDER BY 2 DESC, 1"

	// Confirmed revocations at providers, ranked for each provider; only the rows at the ranks
	// are returned.
	figureRevocations = "SELECT provider, n, rank, took FROM (SELECT provider, took, " +
		"ROW_NUMBER() OVER (PARTITION BY provider ORDER BY took) AS rank, COUNT(*) OVER (PARTITION BY provider) AS n FROM (" +
		"SELECT u.provider, u.dead_at - (" + endedAt + ") AS took FROM upstream_leases u JOIN leases l ON l.id = u.lease_id LEFT JOIN tasks t ON t.id = l.task_id " +
		"WHERE u.dead_at > 0 AND u.dead_at >= ? AND u.dead_at < ? AND u.proof NOT IN ('never', 'forced')) d) ranked " +
		"WHERE rank = (n * 50 + 99) / 100 OR rank = (n * 95 + 99) / 100 OR rank = n ORDER BY provider, rank"

	figureProofs = "SELECT u.provider, u.proof, COUNT(*) FROM upstream_leases u WHERE u.dead_at > 0 AND u.dead_at >= ? AND u.dead_at < ? " +
		"AND u.proof IN ('expired', 'never', 'forced') GROUP BY u.provider, u.proof"
)

// edge finds the moment at which a window exceeds the maximum number of rows of one
// table.
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

// Figures implements broker.Statistics. It runs several statements: a concurrent write
// may be visible to some of them only.
func (fs *figureStore) Figures(ctx context.Context, f broker.FigureFilter) (broker.Figures, error) {
	if f.Now.IsZero() || f.From.IsZero() || !f.From.Before(f.To) || f.Cell < time.Minute || f.To.Sub(f.From)/f.Cell > 1000 {
		return broker.Figures{}, errors.New("figures: they need the time, and a window of at most 1000 cells of a minute or more")
	}
	out, err := fs.figures(ctx, f)
	if err != nil {
		return broker.Figures{}, fmt.Errorf("figures: %w", fs.engine.explain(err))
	}
	return out, nil
}

func (fs *figureStore) figures(ctx context.Context, f broker.FigureFilter) (broker.Figures, error) {
	out := broker.Figures{To: f.To, Cell: f.Cell}
	from, to, now := millis(f.From), millis(f.To), millis(f.Now)
	from, cut, err := fs.cutAt(ctx, edges, from, to)
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
		if err := fs.fill(ctx, out.Cells, text, args); err != nil {
			return out, err
		}
	}
	busy := func(row scan) (b broker.Busy, err error) { return b, row(&b.Name, &b.N) }
	ends := func(row scan) (e broker.TaskEnds, err error) { return e, row(&e.Cause, &e.N) }
	var errs [5]error
	if byDay {
		errs[0] = fs.leasesByDay(ctx, &out, f.Now, from, to)
	} else {
		out.Scopes, errs[0] = collect(ctx, fs.engine.read(), figureScopes, []any{from, to, from, broker.FigureNames}, busy)
		out.Providers, errs[1] = collect(ctx, fs.engine.read(), figureProviders, []any{from, to, from, broker.FigureNames}, busy)
	}
	out.Ends, errs[2] = collect(ctx, fs.engine.read(), figureEnds, []any{from, to}, ends)
	out.Revocations, errs[3] = fs.revocationTimes(ctx, from, to)
	out.Decisions, errs[4] = fs.decisions(ctx, from, to, now)
	return out, errors.Join(errs[:]...)
}

// cutAt returns the latest beginning at which the window stays within the limits of its
// edges.
func (fs *figureStore) cutAt(ctx context.Context, edges []edge, from, to int64) (begin int64, cut bool, err error) {
	for _, e := range edges {
		over, err := collect(ctx, fs.engine.read(), e.text, []any{from, to, e.rows}, func(row scan) (at int64, err error) { return at, row(&at) })
		if err != nil {
			return from, cut, err
		}
		if len(over) > 0 && over[0] >= from { // including all rows of the same moment
			from, cut = min(over[0]+1, to-1), true
		}
	}
	return from, cut, nil
}

// fill adds counts to cells, by their kind.
func (fs *figureStore) fill(ctx context.Context, cells []broker.FigureCell, text string, args []any) error {
	type line struct {
		cell, n int
		of      string
	}
	lines, err := collect(ctx, fs.engine.read(), text, args, func(row scan) (l line, err error) { return l, row(&l.cell, &l.of, &l.n) })
	if err != nil {
		return err
	}
	for _, l := range lines {
		if l.cell < 0 || l.cell >= len(cells) {
			return fmt.Errorf("the database returned cell %d of %d", l.cell, len(cells))
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
