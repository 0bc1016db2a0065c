package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

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
