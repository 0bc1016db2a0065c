package egress

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// activeSet holds the cancel functions of running requests and connections, by the ids of the task
// and the lease that they depend on. When a task or lease ends, they are disconnected at once.
type activeSet struct {
	mu   sync.Mutex
	next uint64
	of   map[string]map[uint64]context.CancelCauseFunc // by task or lease
}

// begin registers a request or connection that depends on ids. The returned context ends with the
// first of them. The returned function must be called when the request or connection ends by
// itself.
func (c *activeSet) begin(ctx context.Context, ids ...string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := c.add(cancel, ids...)
	return ctx, func() {
		cancel(nil)
		done()
	}
}

// add makes the end of any of ids call cancel, until done is called.
func (c *activeSet) add(cancel context.CancelCauseFunc, ids ...string) (done func()) {
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

// all cancels everything.
func (c *activeSet) all(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.of {
		for _, cancel := range of {
			cancel(cause)
		}
	}
}

// disconnect cancels everything that depends on an id, and returns how many functions it called.
func (c *activeSet) disconnect(id string, cause error) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.of[id] {
		cancel(cause)
	}
	return len(c.of[id])
}

// pendingEnds counts the requests that are in the audit log as allowed but not yet as completed.
type pendingEnds struct {
	mu      sync.Mutex
	of      share
	none    chan struct{}          // closed when no request is pending; nil = no call of wait is running
	ended   []broker.EndedExchange // completions that writeAll has not taken yet
	writing bool
}

// write queues the completion of a request for writeAll and returns at once. Requests that end
// during a write are written together next.
func (e *pendingEnds) write(to Record, x broker.EndedExchange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = append(e.ended, x)
	if !e.writing {
		e.writing = true
		go e.writeAll(to)
	}
}

// writeAll writes the queued completions, at most maxEnds at a time, until the queue is empty.
func (e *pendingEnds) writeAll(to Record) {
	for {
		e.mu.Lock()
		ends := e.ended[:min(len(e.ended), maxEnds)]
		e.ended = e.ended[len(ends):]
		if len(ends) == 0 {
			e.ended, e.writing = nil, false
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		to.UseCompleted(context.Background(), ends...)
		for _, x := range ends {
			e.remove(x.Caller.Root())
		}
	}
}

func (e *pendingEnds) add(task string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of.take(task, 1, taskPending, maxPending)
}

func (e *pendingEnds) remove(task string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of.give(task, 1); e.of.n == 0 && e.none != nil {
		close(e.none)
		e.none = nil
	}
}

// wait waits until no request is pending, for at most patience. It returns how many still are.
func (e *pendingEnds) wait(patience time.Duration) int {
	e.mu.Lock()
	if e.of.n == 0 {
		e.mu.Unlock()
		return 0
	}
	if e.none == nil {
		e.none = make(chan struct{})
	}
	none := e.none
	e.mu.Unlock()
	select {
	case <-none:
		return 0
	case <-time.After(patience):
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of.n
}

// sentBytes counts what each root task has sent, including its subtasks.
type sentBytes struct {
	mu sync.Mutex
	of map[string]*atomic.Int64
}

func (m *sentBytes) get(taskID string) *atomic.Int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]*atomic.Int64{}
	}
	if m.of[taskID] == nil {
		m.of[taskID] = new(atomic.Int64)
	}
	return m.of[taskID]
}

func (m *sentBytes) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}
