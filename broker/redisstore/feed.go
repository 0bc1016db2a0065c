package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

// maxEvents is how many events one Follow returns at most.
const maxEvents = 1000

// publish tells the feed of an end, and on the same way the owner ("" = unknown).
func (s *Store) publish(ctx context.Context, task, lease string, at, until int64, owner string) error {
	life := ttl(until, min(at, s.now()), margin)
	cmds := []redis.Cmder{redis.NewIntCmd(ctx, publishScript.args(1, s.keys.feed(), task, lease, at, until, life)...)}
	if owner != "" {
		cmds = append(cmds, s.drop(ctx, s.ownerBy(owner), task, lease))
	}
	return s.run(ctx, cmds...)
}

// Follow implements broker.LeaseTable. A cursor it does not know, because the
// feed was lost or it is another ledger's, is like "": hearing of an end twice is
// harmless and missing one is not. max is clamped to 1..1000. When ctx ends
// first, its error is returned.
func (s *Store) Follow(ctx context.Context, cursor string, max int, wait time.Duration) ([]broker.Event, string, error) {
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
		events, next, last, err := s.read(ctx, cursor, max)
		if err != nil || len(events) > 0 || wait <= 0 {
			return events, next, err
		}
		woken, done := s.tail.wait(last)
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

// read returns the events after cursor, and the newest entry of the feed.
func (s *Store) read(ctx context.Context, cursor string, max int) (events []broker.Event, next string, last streamID, err error) {
	from := "-"
	if cursor != "" {
		from = "(" + cursor
	}
	newest := redis.NewXMessageSliceCmd(ctx, "xrevrange", s.keys.feed(), "+", "-", "count", 1)
	after := redis.NewXMessageSliceCmd(ctx, "xrange", s.keys.feed(), from, "+", "count", max)
	if err := s.run(ctx, newest, after); err != nil {
		return nil, "", last, err
	}
	if got := newest.Val(); len(got) > 0 {
		last, _ = parseID(got[0].ID)
	}
	if seen, _ := parseID(cursor); cursor != "" && last.before(seen) {
		return s.read(ctx, "", max) // the feed was lost: this cursor is ahead of it
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

// streamID is the id of a stream's entry.
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
		return streamID{}, false // nothing can come after it, and Redis refuses to look
	}
	return id, err1 == nil && err2 == nil && id.String() == text
}
