package mcp

import (
	"context"
	"sync"
	"time"
)

// calls counts the running tool calls, so that a stop can wait for them.
type calls struct {
	mu    sync.Mutex
	n     int
	ended time.Time // when the last call ended
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

// look is the polling interval while a call is running.
const look = 20 * time.Millisecond

// left returns the minimum time to wait until no call is running and the last
// one ended at least while ago.
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

// Quiet waits until no call is running and the last one ended at least while
// ago, so that its response is sent, or until ctx ends.
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
