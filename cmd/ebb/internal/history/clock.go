package history

import (
	"sync/atomic"
	"time"
)

// Clock is behind the machine's clock, by an amount that only decreases.
type Clock struct{ behind atomic.Int64 }

// NewClock returns a clock that is behind by this much.
func NewClock(behind time.Duration) *Clock {
	c := &Clock{}
	c.behind.Store(int64(behind))
	return c
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.Now().Add(-time.Duration(c.behind.Load())) }

// turn sets how much the clock is behind. It never sets the clock back.
func (c *Clock) turn(behind time.Duration) {
	if int64(behind) < c.behind.Load() {
		c.behind.Store(int64(behind))
	}
}
