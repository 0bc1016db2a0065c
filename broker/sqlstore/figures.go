package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// figureStore computes sums over a window for the statistics pages.
type figureStore struct {
	com    *committer
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

const (
	// figureDay counts the leases issued in a day by provider and scope, in one
	// statement.
	figureDay = "SELECT l.provider, l.scope, COUNT(*)" + issuedIn + " GROUP BY l.provider, l.scope"

	// figureOpen finds a lease whose state still changes the sums of a day: the provider
	// may yet report that the credential was never made. Such leases are few and have an
	// index. The plus signs make the planner use it.
	figureOpen  = "SELECT 1 FROM leases l WHERE l.state IN ('intent', 'revoking') AND +l.issued_at < ? AND +l.expires_at >= ? LIMIT 1"
	figureDoubt = "SELECT 1 FROM leases l WHERE l.state = 'unconfirmed' AND +l.issued_at < ? AND +l.expires_at >= ? LIMIT 1"

	wholeDay = 24 * time.Hour
	// dayRests is how long a day must be over before its sums are cached: a revocation
	// that the database did not accept at once is written later, with its original time.
	dayRests = wholeDay
	// dayKept is how long sums of a day stay cached, and dayBytes the maximum memory for
	// them.
	dayKept  = wholeDay
	dayBytes = 256 << 10
)

// leaseDay holds the sums of one day.
type leaseDay struct {
	issued           []busyScope
	n                int
	revoked, expired int
	at               time.Time // time of the computation
}

type busyScope struct {
	provider, scope string
	n               int
}

// leaseDays caches days whose sums are final. The leases of a month (100,000) are then
// summed up once, and later only those of two days.
type leaseDays struct {
	mu   sync.Mutex
	kept map[int64]leaseDay // by the day's beginning
}

func (d *leaseDays) get(from int64, now time.Time) (leaseDay, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, day := range d.kept {
		if age := now.Sub(day.at); age < 0 || age >= dayKept {
			delete(d.kept, at)
		}
	}
	day, is := d.kept[from]
	return day, is
}

func (d *leaseDays) put(from int64, day leaseDay) {
	bytes := 0
	for _, b := range day.issued {
		bytes += len(b.provider) + len(b.scope) + 64
	}
	if bytes > dayBytes {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil {
		d.kept = map[int64]leaseDay{}
	}
	d.kept[from] = day
}

// leasesByDay fills the cells, one for each day, with the sums of leases.
func (fs *figureStore) leasesByDay(ctx context.Context, out *broker.Figures, now time.Time, from, to int64) error {
	days, known := make([]leaseDay, len(out.Cells)), make([]bool, len(out.Cells))
	for i, c := range out.Cells {
		if millis(c.Start) >= from {
			days[i], known[i] = fs.days.get(millis(c.Start), now)
		}
	}
	// Leases that ended in a day are found by their expiry, which may be later than the
	// day. So all days that are not cached are read in one statement.
	if i := slices.Index(known, false); i >= 0 {
		since := max(millis(out.Cells[i].Start), from)
		ended := make([]broker.FigureCell, len(out.Cells)-i)
		if err := fs.fill(ctx, ended, figureEnded, []any{millis(out.Cells[i].Start), wholeDay.Milliseconds(), since, since, since, to}); err != nil {
			return err
		}
		for k := range ended {
			if day := &days[i+k]; !known[i+k] {
				day.revoked, day.expired = ended[k].Revoked, ended[k].Expired
			}
		}
	}
	byScope, byProvider := map[string]int{}, map[string]int{}
	for i := range out.Cells {
		c := &out.Cells[i]
		if start := millis(c.Start); !known[i] {
			if err := fs.leaseDay(ctx, &days[i], now, max(start, from), min(start+wholeDay.Milliseconds(), to)); err != nil {
				return err
			}
		}
		c.Issued, c.Revoked, c.Expired = days[i].n, days[i].revoked, days[i].expired
		for _, b := range days[i].issued {
			byScope[b.scope] += b.n
			byProvider[b.provider] += b.n
		}
	}
	out.Scopes, out.Providers = busiest(byScope), busiest(byProvider)
	return nil
}

func busiest(by map[string]int) []broker.Busy {
	var out []broker.Busy
	for name, n := range by {
		out = append(out, broker.Busy{Name: name, N: n})
	}
	slices.SortFunc(out, func(a, b broker.Busy) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	return out[:min(len(out), broker.FigureNames)]
}

// leaseDay adds the leases issued in a day, and caches the day when its sums are final.
func (fs *figureStore) leaseDay(ctx context.Context, day *leaseDay, now time.Time, from, to int64) (err error) {
	day.at = now
	if day.issued, err = collect(ctx, fs.engine.read(), figureDay, []any{from, to, from}, func(row scan) (b busyScope, err error) {
		err = row(&b.provider, &b.scope, &b.n)
		day.n += b.n
		return b, err
	}); err != nil {
		return err
	}
	if to-from != wholeDay.Milliseconds() || now.Sub(fromMillis(to)) < dayRests {
		return nil
	}
	for _, text := range []string{figureOpen, figureDoubt} {
		if open, err := exists(ctx, fs.engine.read(), text, to, from); err != nil || open {
			return err
		}
	}
	fs.days.put(from, *day)
	return nil
}
