package kernel

import (
	"context"
	"sync"
	"time"
)

// LiveStoreTime is how long an end waits for a live store that hangs before it goes on to the
// database: after a restart only the database counts.
const LiveStoreTime = time.Second

func Every(ctx context.Context, d time.Duration, do func(context.Context)) error {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			do(ctx)
		}
	}
}

// RefillTime bounds one refill of the live store.
const RefillTime = 5 * time.Minute

// Background runs watches of sandboxes, actions after their exit, and repeated pauses. All of it stops
// when the broker stops: its stores are closed then, and live sandboxes cannot reconnect to it.
type Background struct {
	mu    sync.Mutex
	over  bool
	n     sync.WaitGroup
	ended context.Context //nolint:containedctx // outlives every call, and stops all of them
	end   context.CancelFunc

	Away context.Context //nolint:containedctx // done when no sandbox can reconnect to this process
	Shut context.CancelFunc
}

func NewBackground() *Background {
	s := &Background{}
	s.ended, s.end = context.WithCancel(context.Background())
	s.Away, s.Shut = context.WithCancel(s.ended)
	return s
}

const stopGrace = 5 * time.Second

func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Begin runs do in the background until it returns, or ctx or the broker ends. It returns false
// when the broker has ended.
func (s *Background) Begin(ctx context.Context, do func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.ended, cancel)
	s.n.Go(func() {
		defer cancel()
		defer unlink()
		do(ctx)
	})
	return true
}

// Stop ends all background work. Running writes have stopGrace to finish.
func (s *Background) Stop() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.end()
	done := make(chan struct{})
	go func() { s.n.Wait(); close(done) }()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
}
