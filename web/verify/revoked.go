package verify

import (
	"sync"
	"time"
)

// revoked is the revoked set: the tasks and leases that the feed reported, and
// the age of that information.
type revoked struct {
	max int

	mu    sync.RWMutex
	until map[string]time.Time // task or lease id -> time after which it may be dropped
	fresh time.Time            // request time of the last complete response; zero = none
	floor time.Time            // tokens issued until then are refused: their events were dropped
	bound time.Duration        // ebb's limit for the staleness; 0 = none
	swept time.Time
}

// slack keeps entries longer than needed, because clocks differ.
const slack = 5 * time.Minute

func newRevoked(limit int) *revoked {
	return &revoked{max: limit, until: map[string]time.Time{}}
}

// add adds the events of one response.
func (d *revoked) add(events []Event, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.swept) > time.Minute || len(d.until)+len(events) > d.max {
		d.sweep(now)
	}
	for _, e := range events {
		id := e.LeaseID
		if id == "" {
			id = e.TaskID
		}
		end := e.Until.Add(slack)
		if id == "" || !end.After(now) {
			continue
		}
		if end.After(d.until[id]) {
			d.until[id] = end
		}
		if len(d.until) > d.max {
			// The dropped entries concern tokens issued before now, because ebb
			// issues none for a revoked task or lease. Refusing all such tokens
			// therefore loses no revocation.
			clear(d.until)
			d.floor = now.Add(leeway)
			d.until[id] = end
		}
	}
}

func (d *revoked) sweep(now time.Time) {
	for id, end := range d.until {
		if !end.After(now) {
			delete(d.until, id)
		}
	}
	d.swept = now
}

// complete records that the feed was read to its end by a response requested at
// asked.
func (d *revoked) complete(asked time.Time, bound time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fresh, d.bound = asked, bound
}

// judge reports whether a token is revoked, and whether the revoked set is
// recent enough to tell.
func (d *revoked) judge(t *Token, now time.Time, staleness time.Duration) (dead, known bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.bound > 0 {
		staleness = min(staleness, d.bound)
	}
	// A negative age means that the clock was set back, so the age is unknown.
	// Use the larger of the monotonic and the wall-clock age: the monotonic
	// clock stops while a machine is suspended, and revocations of that time
	// must not be missed.
	age := max(now.Sub(d.fresh), now.Round(0).Sub(d.fresh.Round(0)))
	if d.fresh.IsZero() || age > staleness || age < 0 {
		return false, false
	}
	_, task := d.until[t.TaskID]
	_, lease := d.until[t.LeaseID]
	for _, id := range t.Ancestors {
		_, above := d.until[id]
		task = task || above
	}
	for _, id := range t.Parents {
		_, parent := d.until[id]
		lease = lease || parent
	}
	return task || lease || !t.IssuedAt.After(d.floor), true
}
