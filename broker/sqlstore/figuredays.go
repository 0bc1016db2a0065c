package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"ebb/broker"
)

const (
	// figureDay says by provider and scope what was issued in a day, in one look at it.
	figureDay = "SELECT l.provider, l.scope, COUNT(*)" + issuedIn + " GROUP BY l.provider, l.scope"

	// figureOpen finds a credential of which it is not known yet what a day says of it: the
	// provider may say that it never made it. Those are few and have an index, which the plus
	// signs have the planner take.
	figureOpen  = "SELECT 1 FROM leases l WHERE l.state IN ('intent', 'revoking') AND +l.issued_at < ? AND +l.expires_at >= ? LIMIT 1"
	figureDoubt = "SELECT 1 FROM leases l WHERE l.state = 'unconfirmed' AND +l.issued_at < ? AND +l.expires_at >= ? LIMIT 1"

	wholeDay = 24 * time.Hour
	// dayRests is how long a day must be over before what it says of credentials is kept: an
	// end that a store did not take at once is written down with its own time, later.
	dayRests = wholeDay
	// dayKept is how long it is kept then, and dayBytes how much of it at most.
	dayKept  = wholeDay
	dayBytes = 256 << 10
)

// leaseDay is what a day says of credentials.
type leaseDay struct {
	issued           []busyScope
	n                int
	revoked, expired int
	at               time.Time // when it was summed up
}

type busyScope struct {
	provider, scope string
	n               int
}

// leaseDays keeps days that say what they will say for good. A month of 100,000 credentials
// is summed up once, and later two days of it.
type leaseDays struct {
	mu   sync.Mutex
	kept map[int64]leaseDay // by their beginning
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

// leasesByDay is what the window says of credentials, in cells of days.
func (s *Store) leasesByDay(ctx context.Context, out *broker.Figures, now time.Time, from, to int64) error {
	days, known := make([]leaseDay, len(out.Cells)), make([]bool, len(out.Cells))
	for i, c := range out.Cells {
		if millis(c.Start) >= from {
			days[i], known[i] = s.days.get(millis(c.Start), now)
		}
	}
	// What ends in a day is found by its expiry, which may be later than the day: all that is
	// not known is looked at together.
	if i := slices.Index(known, false); i >= 0 {
		since := max(millis(out.Cells[i].Start), from)
		ended := make([]broker.FigureCell, len(out.Cells)-i)
		if err := s.fill(ctx, ended, figureEnded, []any{millis(out.Cells[i].Start), wholeDay.Milliseconds(), since, since, since, to}); err != nil {
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
			if err := s.leaseDay(ctx, &days[i], now, max(start, from), min(start+wholeDay.Milliseconds(), to)); err != nil {
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

// leaseDay adds what was issued in a day, and keeps the day when it is final.
func (s *Store) leaseDay(ctx context.Context, day *leaseDay, now time.Time, from, to int64) (err error) {
	day.at = now
	if day.issued, err = collect(ctx, s.engine.read(), figureDay, []any{from, to, from}, func(row scan) (b busyScope, err error) {
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
		if open, err := exists(ctx, s.engine.read(), text, to, from); err != nil || open {
			return err
		}
	}
	s.days.put(from, *day)
	return nil
}
