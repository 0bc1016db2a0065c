package egress

import (
	"context"
	"sync"
)

// cuts are the requests and connections that are under way, by the task and the lease
// that they live by: what ends with those is cut, not left to end by itself.
type cuts struct {
	mu   sync.Mutex
	next uint64
	of   map[string]map[uint64]context.CancelCauseFunc // by task or lease
}

// begin registers something that lives by ids, and returns a context that ends with the
// first of them, and what to call when it has ended by itself.
func (c *cuts) begin(ctx context.Context, ids ...string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := c.add(cancel, ids...)
	return ctx, func() {
		cancel(nil)
		done()
	}
}

// add has what is under way end with more: with the first of ids, too, until done.
func (c *cuts) add(cancel context.CancelCauseFunc, ids ...string) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]map[uint64]context.CancelCauseFunc{}
	}
	c.next++
	n := c.next
	for _, id := range ids {
		if c.of[id] == nil {
			c.of[id] = map[uint64]context.CancelCauseFunc{}
		}
		c.of[id][n] = cancel
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range ids {
			if delete(c.of[id], n); len(c.of[id]) == 0 {
				delete(c.of, id)
			}
		}
	}
}

// all ends everything.
func (c *cuts) all(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.of {
		for _, cancel := range of {
			cancel(cause)
		}
	}
}

// cut ends all that lives by an id, and says how much that was.
func (c *cuts) cut(id string, cause error) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.of[id] {
		cancel(cause)
	}
	return len(c.of[id])
}
