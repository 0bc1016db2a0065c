package brokertest

import (
	"sync"
	"time"
)

// Clock is a clock that tests set.
type Clock struct {
	mu    sync.Mutex
	now   time.Time
	real  bool
	ahead time.Duration // how far a real one is ahead
	off   time.Duration // sum of its jumps
	most  time.Duration // the last result of Steady
}

// RealClock returns the machine's clock plus ahead.
func RealClock(ahead time.Duration) *Clock { return &Clock{real: true, ahead: ahead} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real {
		return time.Now().Add(c.ahead)
	}
	return c.now
}

// Jump sets the clock; the monotonic time stays.
func (c *Clock) Jump(d time.Duration) {
	c.Steady()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.ahead, c.off = c.now.Add(d), c.ahead+d, c.off+d
}

// Steady is the monotonic clock: Add advances it, and Jump does not.
func (c *Clock) Steady() time.Duration {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = max(c.most, time.Duration(now.UnixNano())-c.off)
	return c.most
}

// Add advances both clocks.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.ahead = c.now.Add(d), c.ahead+d
}
