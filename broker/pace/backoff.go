package pace

import "time"

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
