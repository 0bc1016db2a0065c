package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// batchCalls is the maximum number of calls in one batch.
const batchCalls = 128

// batcher sends the commands of concurrent calls in one pipeline: system calls and
// context switches are most of the cost of a call, for this process and for the server.
// Only one batch is sent at a time: a second one would be slightly earlier, but each
// would be half as large. A single call is sent at once, and no call waits for others.
type batcher struct {
	exec  func(ctx context.Context, cmds []redis.Cmder)
	limit time.Duration // a call that waits longer for its turn fails

	mu      sync.Mutex
	queue   []*call
	running bool
}

type call struct {
	cmds  []redis.Cmder
	since time.Time
	err   error
	done  chan struct{}
}

var (
	errBusy = errors.New("the server is too slow: the call waited too long to be sent")
	errLost = errors.New("the call was not completed")
)

// do returns when cmds were executed or ctx ended. In the second case the caller must not
// read the commands: they may still be sent.
func (b *batcher) do(ctx context.Context, cmds []redis.Cmder) error {
	c := &call{cmds: cmds, since: time.Now(), done: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, c)
	idle := !b.running
	b.running = true
	b.mu.Unlock()
	if end, hurry := ctx.Deadline(); idle && hurry && end.Before(c.since.Add(b.limit)) {
		go b.rest()
	} else if idle {
		// The caller sends the batch itself, which saves two context switches. The
		// client's timeouts bound the time of sending, not ctx.
		if b.send() {
			go b.rest()
		}
		return c.err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *batcher) rest() {
	for b.send() {
	}
}

// send sends one batch and reports whether more calls wait. It uses no caller's context:
// a caller that ends must not break the other calls of the batch. The client's timeouts
// bound it. A panic of the client fails one batch; later calls must still be sent.
func (b *batcher) send() (more bool) {
	calls := b.take()
	defer func() {
		panicked := recover()
		for _, c := range calls {
			if panicked != nil { // a panic must not look like an answer
				c.err = fmt.Errorf("%w: the client panicked: %v", errLost, panicked)
			}
			close(c.done)
		}
		more = b.more()
	}()
	var cmds []redis.Cmder
	for _, c := range calls {
		if time.Since(c.since) > b.limit {
			c.err = errBusy
			continue
		}
		cmds = append(cmds, c.cmds...)
	}
	b.exec(context.Background(), cmds)
	return
}

func (b *batcher) take() []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queue), batchCalls)
	calls := b.queue[:n:n]
	b.queue = b.queue[n:]
	return calls
}

func (b *batcher) more() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running = len(b.queue) > 0; !b.running {
		b.queue = nil // releases the calls that its array still refers to
	}
	return b.running
}
