package brokertest

import (
	"sync"
	"time"
)

// Clock is a clock that tests turn.
type Clock struct {
	mu    sync.Mutex
	now   time.Time
	real  bool
	ahead time.Duration // of a real one
}

// RealClock is the machine's clock, and goes ahead of it.
func RealClock(ahead time.Duration) *Clock { return &Clock{real: true, ahead: ahead} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real {
		return time.Now().Add(c.ahead)
	}
	return c.now
}

// Add turns the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.ahead = c.now.Add(d), c.ahead+d
}
