package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// feedStream is the revocation feed.
type feedStream struct {
	client redis.UniversalClient
	keys   keys
	tail   *tail

	cmds *commands
	gate *gateway
}

// maxEvents is the maximum number of events of one Follow.
const maxEvents = 1000

// publish adds an event to the feed and frees the places of the owner ("" = unknown
// owner).
func (f *feedStream) publish(ctx context.Context, task, lease string, at, until int64, owner string) error {
	life := ttl(until, min(at, f.cmds.now()), margin)
	cmds := []redis.Cmder{redis.NewIntCmd(ctx, publishScript.args(1, f.keys.feed(), task, lease, at, until, life)...)}
	if owner != "" {
		cmds = append(cmds, f.gate.drop(ctx, f.gate.ownerBy(owner), task, lease))
	}
	return f.cmds.run(ctx, cmds...)
}

// Follow implements broker.LeaseTable. An unknown cursor (the feed was lost, or the
// cursor is from another LiveStore) counts as "": receiving an event twice is harmless,
// missing one is not. max is limited to 1..1000. If ctx ends first, its error is
// returned.
func (f *feedStream) Follow(ctx context.Context, cursor string, max int, wait time.Duration) ([]broker.Event, string, error) {
	max = min(maxEvents, max)
	if max < 1 {
		max = 1
	}
	if _, ok := parseID(cursor); !ok {
		cursor = ""
	}
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		events, next, last, err := f.read(ctx, cursor, max)
		if err != nil || len(events) > 0 || wait <= 0 {
			return events, next, err
		}
		woken, done := f.tail.wait(last)
		select {
		case <-woken:
			done()
		case <-timeout:
			done()
			return nil, next, nil
		case <-ctx.Done():
			done()
			return nil, "", fmt.Errorf("redis: %w", ctx.Err())
		}
	}
}

// read returns the events after cursor, and the id of the newest entry of the feed.
func (f *feedStream) read(ctx context.Context, cursor string, max int) (events []broker.Event, next string, last streamID, err error) {
	from := "-"
	if cursor != "" {
		from = "(" + cursor
	}
	newest := redis.NewXMessageSliceCmd(ctx, "xrevrange", f.keys.feed(), "+", "-", "count", 1)
	after := redis.NewXMessageSliceCmd(ctx, "xrange", f.keys.feed(), from, "+", "count", max)
	if err := f.cmds.run(ctx, newest, after); err != nil {
		return nil, "", last, err
	}
	if got := newest.Val(); len(got) > 0 {
		last, _ = parseID(got[0].ID)
	}
	if seen, _ := parseID(cursor); cursor != "" && last.before(seen) {
		return f.read(ctx, "", max) // the feed was lost: this cursor is later than its newest entry
	}
	next = cursor
	for _, m := range after.Val() {
		text := func(name string) string { v, _ := m.Values[name].(string); return v }
		events = append(events, broker.Event{
			TaskID: text("t"), LeaseID: text("l"), At: instant(number(text("a"))), Until: instant(number(text("u"))),
		})
		next = m.ID
	}
	return events, next, last, nil
}

// streamID is the id of a stream entry.
type streamID struct{ ms, seq uint64 }

func (a streamID) before(b streamID) bool { return a.ms < b.ms || a.ms == b.ms && a.seq < b.seq }

func (a streamID) String() string {
	return strconv.FormatUint(a.ms, 10) + "-" + strconv.FormatUint(a.seq, 10)
}

func parseID(text string) (id streamID, ok bool) {
	ms, seq, ok := strings.Cut(text, "-")
	if !ok {
		return id, false
	}
	var err1, err2 error
	id.ms, err1 = strconv.ParseUint(ms, 10, 64)
	id.seq, err2 = strconv.ParseUint(seq, 10, 64)
	if id.ms == 1<<64-1 && id.seq == 1<<64-1 {
		return streamID{}, false // no id is greater, and Redis refuses the range
	}
	return id, err1 == nil && err2 == nil && id.String() == text
}

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
