package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// batches is how many batches are on their way at one time.
	batches = 2
	// batchCalls bounds the calls in one.
	batchCalls = 128
)

// batcher sends the commands of calls that come at the same time in one
// pipeline: most of what a call costs this process is its system calls. A call
// that comes alone goes at once; nothing ever waits for company.
type batcher struct {
	exec  func(ctx context.Context, cmds []redis.Cmder)
	limit time.Duration // a call that waited longer for its turn is given up

	mu      sync.Mutex
	queue   []*call
	running int
}

type call struct {
	cmds  []redis.Cmder
	since time.Time
	err   error
	done  chan struct{}
}

var errBusy = errors.New("the server does not keep up")

// do returns when cmds were executed, or ctx ended: then the commands must not
// be looked at, because they may still be on their way.
func (b *batcher) do(ctx context.Context, cmds []redis.Cmder) error {
	c := &call{cmds: cmds, since: time.Now(), done: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, c)
	start := b.running < batches
	if start {
		b.running++
	}
	b.mu.Unlock()
	if start {
		go b.run()
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run sends batches until nothing is left. It has no caller's context: one that
// hangs up must not break the others. The client's timeouts bound it.
func (b *batcher) run() {
	ctx := context.Background()
	var cmds []redis.Cmder
	for {
		b.mu.Lock()
		n := min(len(b.queue), batchCalls)
		calls := b.queue[:n:n]
		b.queue = b.queue[n:]
		if n == 0 {
			b.queue = nil
			b.running--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		cmds = cmds[:0]
		for _, c := range calls {
			if time.Since(c.since) > b.limit {
				c.err = errBusy
				continue
			}
			cmds = append(cmds, c.cmds...)
		}
		b.exec(ctx, cmds)
		for _, c := range calls {
			close(c.done)
		}
	}
}
