package pace

import (
	"sync"
	"time"
)

// State of a Breaker.
type State int

// States of a Breaker, in the order of how much is let through.
const (
	Open     State = iota // nobody calls
	HalfOpen              // one call finds out
	Closed                // everybody calls
)

// Breaker keeps callers from waiting, each for itself, for a provider that does
// not answer. After Failures in a row it opens; after a wait that grows, one call
// is let through and decides. The zero value is not usable; it is safe for
// concurrent use.
type Breaker struct {
	Failures int // in a row, that open it; more than 0
	Backoff  Backoff

	mu      sync.Mutex
	failed  int
	until   time.Time // nobody before
	probing bool      // one call is under way that decides
}

// State says what Try would say, without taking the call that decides.
func (b *Breaker) State(now time.Time) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state(now)
}

func (b *Breaker) state(now time.Time) State {
	switch {
	case b.failed < b.Failures:
		return Closed
	case b.probing || now.Before(b.until):
		return Open
	}
	return HalfOpen
}

// Probing reports whether the next call is the one that decides.
func (b *Breaker) Probing(now time.Time) bool { return b.State(now) == HalfOpen }

// Turn is one call that a Breaker granted. Done must follow, or Cancel.
type Turn struct {
	b       *Breaker
	decides bool // the one call that finds out
}

// Try asks for one call.
func (b *Breaker) Try(now time.Time) (t Turn, granted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state(now)
	b.probing = b.probing || s == HalfOpen
	return Turn{b, s == HalfOpen}, s != Open
}

// Done says how the call went: whether the provider answered at all. jitter is in
// [0, 1).
func (t Turn) Done(answered bool, now time.Time, jitter float64) {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = b.probing && !t.decides
	if answered {
		b.failed = 0
		return
	}
	// Calls that began before it opened end after it, while another one finds out: they
	// neither make the wait longer nor let one more in.
	if b.failed >= b.Failures && !t.decides {
		return
	}
	b.failed++
	if b.failed >= b.Failures {
		b.until = now.Add(b.Backoff.Wait(b.failed-b.Failures+1, jitter))
	}
}

// Cancel gives a call back that was not made: nothing was found out, and the next one
// may.
func (t Turn) Cancel() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.b.probing = t.b.probing && !t.decides
}

// Retry is when to ask again; zero when a call may be granted now.
func (b *Breaker) Retry(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state(now) != Open:
		return time.Time{}
	case b.until.After(now):
		return b.until
	}
	return now.Add(b.Backoff.Min) // one call is finding out
}

// Backoff is exponential with full jitter between a floor and a cap: callers that
// failed together do not come back together.
type Backoff struct {
	Min, Max time.Duration // both more than 0
}

// Wait is how long to wait after the given number of failures in a row (1 = the
// first). jitter is in [0, 1).
func (b Backoff) Wait(failures int, jitter float64) time.Duration {
	top := b.Min
	for i := 0; i < failures && top < b.Max; i++ {
		top *= 2
	}
	top = min(top, b.Max)
	return b.Min + time.Duration(jitter*float64(top-b.Min))
}
