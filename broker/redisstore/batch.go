package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// batchCalls bounds the calls in one batch.
const batchCalls = 128

// batcher sends the commands of calls that come at the same time in one
// pipeline: most of what a call costs this process and the server is system calls
// and changes of context. One batch is on its way at a time: a second one would be
// a little sooner and make both half as large. A call that comes alone goes at
// once, and no call waits for company that may not come.
type batcher struct {
	exec  func(ctx context.Context, cmds []redis.Cmder)
	limit time.Duration // a call that waited longer for its turn is given up

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
	errBusy = errors.New("the server does not keep up")
	errLost = errors.New("the call was not completed")
)

// do returns when cmds were executed, or ctx ended: then the commands must not
// be looked at, because they may still be on their way.
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
		// The caller sends it itself, which spares it two changes of context. The
		// client's timeouts bound what that takes, not ctx.
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

// send sends one batch and reports whether there is more to send. It has no
// caller's context: one that hangs up must not break the others. The client's
// timeouts bound it. A panic of the client is the failure of one batch: whoever
// waits behind it must still be sent.
func (b *batcher) send() (more bool) {
	calls := b.take()
	defer func() {
		panicked := recover()
		for _, c := range calls {
			if panicked != nil { // which must not look like an answer
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
		b.queue = nil // with all that its array still points to
	}
	return b.running
}
