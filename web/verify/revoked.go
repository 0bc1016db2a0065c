package verify

import (
	"sync"
	"time"
)

// revoked is what the feed has said: which tasks and leases are dead, and how
// old that knowledge is.
type revoked struct {
	max int

	mu    sync.RWMutex
	until map[string]time.Time // task or lease id -> when it may be forgotten
	fresh time.Time            // the latest complete answer was asked for then; zero = none came
	floor time.Time            // tokens issued until then are refused: their events were dropped
	bound time.Duration        // staleness that ebb wants at most; 0 = it did not say
	swept time.Time
}

// slack keeps entries beyond their end, for clocks that differ.
const slack = 5 * time.Minute

func newRevoked(limit int) *revoked {
	return &revoked{max: limit, until: map[string]time.Time{}}
}

// add takes the events of one answer in.
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
			// Whatever was dropped concerned tokens issued before now: none is
			// minted for what is dead. Refusing them all forgets nothing.
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

// complete notes that the feed was read to its end by an answer asked for at
// asked.
func (d *revoked) complete(asked time.Time, bound time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fresh, d.bound = asked, bound
}

// judge says whether a token is dead, and whether that is known at all.
func (d *revoked) judge(t *Token, now time.Time, staleness time.Duration) (dead, known bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.bound > 0 {
		staleness = min(staleness, d.bound)
	}
	// An age below zero is a clock that went backwards: nothing is known then.
	// Of the two clocks the one that says more counts: the monotonic one stops
	// while a machine sleeps, and what was revoked meanwhile must not pass.
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
