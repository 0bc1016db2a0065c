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
	off   time.Duration // how far it jumped
	most  time.Duration // what Steady said last
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

// Jump sets the clock; no time passes.
func (c *Clock) Jump(d time.Duration) {
	c.Steady()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.ahead, c.off = c.now.Add(d), c.ahead+d, c.off+d
}

// Steady is a clock that nobody sets: Add turns it forwards, and Jump does not.
func (c *Clock) Steady() time.Duration {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = max(c.most, time.Duration(now.UnixNano())-c.off)
	return c.most
}

// Add turns the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.ahead = c.now.Add(d), c.ahead+d
}
