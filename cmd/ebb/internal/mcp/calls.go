package mcp

import (
	"context"
	"sync"
	"time"
)

// calls counts the calls of tools, for who has to stop.
type calls struct {
	mu    sync.Mutex
	n     int
	ended time.Time // of the last one
}

func (c *calls) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n--
		c.ended = time.Now()
	}
}

// look is how often to look whether a call is over.
const look = 20 * time.Millisecond

// left is how long to wait at least until none is under way and none has been for a while.
func (c *calls) left(while time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.n > 0:
		return look
	case c.ended.IsZero():
		return 0
	}
	return while - time.Since(c.ended)
}

// Quiet waits until no call is under way and none has been for a while, in which the last
// answer gets out, or until ctx ends.
func (s *Service) Quiet(ctx context.Context, while time.Duration) {
	for {
		wait := s.calls.left(while)
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
