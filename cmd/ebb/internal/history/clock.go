package history

import (
	"sync/atomic"
	"time"
)

// Clock is behind the machine's by less and less.
type Clock struct{ behind atomic.Int64 }

// NewClock makes one that is behind by this much.
func NewClock(behind time.Duration) *Clock {
	c := &Clock{}
	c.behind.Store(int64(behind))
	return c
}

// Now is what the clock says.
func (c *Clock) Now() time.Time { return time.Now().Add(-time.Duration(c.behind.Load())) }

// turn sets the clock to be behind by this much, never back.
func (c *Clock) turn(behind time.Duration) {
	if int64(behind) < c.behind.Load() {
		c.behind.Store(int64(behind))
	}
}
