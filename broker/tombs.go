package broker

import (
	"sync"
	"time"
)

// tombs are the ends this process knows of by itself or from the feed. They are
// asked before the ledger, so that an end that the ledger forgets in a failover
// still holds here.
type tombs struct {
	mu     sync.RWMutex
	m      map[string]time.Time // task or lease id -> forget after
	before time.Time            // every id made before is over: see LossAccepted; zero = none is by that
}

// add reports whether the end was not known yet.
func (t *tombs) add(id string, until time.Time) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = map[string]time.Time{}
	}
	known, is := t.m[id]
	if until.After(known) {
		t.m[id] = until
	}
	return !is
}

func (t *tombs) has(id string, now time.Time) bool {
	if !t.before.IsZero() && idTime(id).Before(t.before) {
		return true
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return now.Before(t.m[id])
}

func (t *tombs) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, until := range t.m {
		if !now.Before(until) {
			delete(t.m, id)
		}
	}
}
