package pace

import (
	"sync"
	"time"
)

// State of a Breaker.
type State int

// States of a Breaker, ordered by how many calls they allow.
const (
	Open     State = iota // no calls
	HalfOpen              // one call that tests the provider
	Closed                // all calls
)

// Breaker is a circuit breaker for a provider that does not respond, so that callers do not
// each wait for it. It opens after Failures consecutive failures. After a wait that grows
// with each failure, it allows one test call, and the result closes or reopens it. The zero
// value is not usable. A Breaker is safe for concurrent use.
type Breaker struct {
	Failures int // number of consecutive failures that open it; more than 0
	Backoff  Backoff

	mu      sync.Mutex
	failed  int
	until   time.Time // no calls before this time
	probing bool      // the test call is in progress
}

// State returns the current state without starting the test call.
func (b *Breaker) State(now time.Time) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state(now)
}

func (b *Breaker) state(now time.Time) State {
	switch {
	case b.failed < b.Failures:
		return Closed
	case b.probing || Left(b.until, now, b.Backoff.Max) > 0:
		return Open
	}
	return HalfOpen
}

// Left returns the remaining wait, at least 0. If more than most and one minute remain, the clock was set
// back since, and Left returns 0. The minute allows for small steps of the clock.
func Left(until, now time.Time, most time.Duration) time.Duration {
	if left := until.Sub(now); left <= most+time.Minute {
		return max(left, 0)
	}
	return 0
}

// Probing reports whether the next call would be the test call.
func (b *Breaker) Probing(now time.Time) bool { return b.State(now) == HalfOpen }

// Turn is one call that a Breaker has allowed. The caller must call Done or Cancel.
type Turn struct {
	b       *Breaker
	decides bool // this is the test call
}

// Try requests permission for one call.
func (b *Breaker) Try(now time.Time) (t Turn, granted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state(now)
	b.probing = b.probing || s == HalfOpen
	return Turn{b, s == HalfOpen}, s != Open
}

// Done reports whether the provider responded at all. jitter is in [0, 1).
func (t Turn) Done(answered bool, now time.Time, jitter float64) {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = b.probing && !t.decides
	if answered {
		b.failed = 0
		return
	}
	// Calls that began before the breaker opened may end while the test call is in progress.
	// They neither lengthen the wait nor allow another call.
	if b.failed >= b.Failures && !t.decides {
		return
	}
	b.failed++
	if b.failed >= b.Failures {
		b.until = now.Add(b.Backoff.Wait(b.failed-b.Failures+1, jitter))
	}
}

// Cancel returns a call that was not made. The state does not change, and the next call may
// be the test call.
func (t Turn) Cancel() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	t.b.probing = t.b.probing && !t.decides
}

// Retry returns when to call Try again; zero when it may succeed now.
func (b *Breaker) Retry(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state(now) != Open:
		return time.Time{}
	case Left(b.until, now, b.Backoff.Max) > 0:
		return b.until
	}
	return now.Add(b.Backoff.Min) // the test call is in progress
}

// Backoff is exponential back-off with full jitter between a minimum and a maximum, so that
// callers that failed together do not retry together.
type Backoff struct {
	Min, Max time.Duration // both more than 0
}

// Wait returns how long to wait after a number of consecutive failures (1 is the first).
// jitter is in [0, 1).
func (b Backoff) Wait(failures int, jitter float64) time.Duration {
	top := b.Min
	for i := 0; i < failures && top < b.Max; i++ {
		top *= 2
	}
	top = min(top, b.Max)
	return b.Min + time.Duration(jitter*float64(top-b.Min))
}
