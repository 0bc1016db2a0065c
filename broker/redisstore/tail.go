package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// tail waits for the feed on behalf of every Follow of this process with one blocking
// connection. It only wakes the waiting calls, which read the feed themselves.
type tail struct {
	s *feedStream

	mu      sync.Mutex
	running bool
	waiters int
	last    streamID // waiting calls were woken for all entries up to here
	woken   chan struct{}
}

func newTail(s *feedStream) *tail { return &tail{s: s, woken: make(chan struct{})} }

// wait returns a channel that is closed when there may be entries after seen, the newest
// entry known to the caller. done must be called.
func (t *tail) wait(seen streamID) (woken <-chan struct{}, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running && seen.before(t.last) {
		// The wake-up came before this call, or the feed was lost and tail has not
		// noticed it yet: let the caller read again, after a pause.
		soon := make(chan struct{})
		time.AfterFunc(5*time.Millisecond, func() { close(soon) })
		return soon, func() {}
	}
	t.waiters++
	if !t.running {
		t.running, t.last = true, seen
		go t.run()
	}
	return t.woken, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiters--
	}
}

// run ends when no call waits any more, and at an error, which the waiting calls then get
// themselves.
func (t *tail) run() {
	ctx := context.Background() // Close ends it by closing the connection
	for {
		last, wanted := t.next()
		if !wanted {
			return
		}
		got, err := t.s.client.XRead(ctx, &redis.XReadArgs{Streams: []string{t.s.keys.feed(), last.String()}, Count: maxEvents, Block: time.Second}).Result()
		switch {
		case err == nil:
			for _, m := range got[0].Messages {
				last, _ = parseID(m.ID)
			}
			t.move(last, false)
		case errors.Is(err, redis.Nil):
			// No new entry, or the feed was lost and starts again below last.
			_, _, newest, err := t.s.read(ctx, "", 1)
			if err != nil || newest.before(last) {
				t.move(newest, err != nil)
			}
			if err != nil {
				return
			}
		default:
			t.move(last, true)
			return
		}
	}
}

// next returns the id after which to continue reading, and whether any call waits.
func (t *tail) next() (last streamID, wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = t.waiters > 0
	return t.last, t.running
}

// move sets last and wakes all waiting calls.
func (t *tail) move(last streamID, stop bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = last
	if stop {
		t.running = false
	}
	close(t.woken)
	t.woken = make(chan struct{})
}

// wake wakes all waiting calls without a new entry.
func (t *tail) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.woken)
	t.woken = make(chan struct{})
}
