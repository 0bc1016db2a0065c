package egress

import (
	"context"
	"errors"
	"sync"
	"time"
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

// reachTimeout is how long an SSH connection stays open while it is unknown whether a revoked lease
// may have opened it.
const reachTimeout = 500 * time.Millisecond

var errMaybeRevoked = errors.New("egress: closed: a revoked credential may have opened this SSH connection; connect again with a valid one")

// sshConnections are the open SSH connections by task. Each may have been opened with any
// certificate of the sandbox for its host, including one that was issued while the connection was
// being opened.
type sshConnections struct {
	mu sync.Mutex
	of map[string]map[*outbound]struct{}
}

// add makes MayHaveOpened check a connection until done is called.
func (o *sshConnections) add(s *outbound) (done func()) {
	task := s.b.who.TaskID
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]map[*outbound]struct{}{}
	}
	if o.of[task] == nil {
		o.of[task] = map[*outbound]struct{}{}
	}
	o.of[task][s] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if delete(o.of[task], s); len(o.of[task]) == 0 {
			delete(o.of, task)
		}
	}
}

// connections returns the SSH connections of a task.
func (o *sshConnections) connections(task string) (out []*outbound) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.of[task] {
		out = append(out, s)
	}
	return out
}

// MayHaveOpened disconnects those SSH connections of a task that a revoked lease may have opened.
// If they cannot be determined within reachTimeout, it disconnects all. It does not wait for that.
func (p *Proxy) MayHaveOpened(taskID, leaseID string) {
	all := p.sshConnections.connections(taskID)
	if len(all) == 0 {
		return
	}
	go func() {
		ctx, done := context.WithTimeout(context.Background(), reachTimeout)
		defer done()
		in, err := p.cfg.Hosts.MayHaveReached(ctx, leaseID)
		for _, s := range all {
			if err != nil || in(s.b.who, s.host) {
				s.disconnect(errMaybeRevoked)
			}
		}
	}()
}
