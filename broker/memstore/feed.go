package memstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// maxEvents is the maximum number of events of one Follow.
const maxEvents = 1000

// feed holds the events that are still relevant, oldest first. A cursor is this process's
// random name and the number of the last event read. A cursor of another process starts
// at the oldest event: receiving an event twice is harmless, missing one is not.
type feed struct {
	boot   string
	events []broker.Event
	first  int64         // number of events[0]
	wake   chan struct{} // closed by the next publish
}

func newFeed() feed { return feed{boot: rand.Text()[:10], first: 1, wake: make(chan struct{})} }

func (f *feed) publish(e broker.Event) {
	f.events = append(f.events, e)
	f.wakeAll()
}

func (f *feed) wakeAll() {
	close(f.wake)
	f.wake = make(chan struct{})
}

// trim drops the oldest events whose Until is before ms.
func (f *feed) trim(ms int64) {
	n := 0
	for n < len(f.events) && n < sweepPerCall && f.events[n].Until.UnixMilli() < ms {
		f.events[n] = broker.Event{}
		n++
	}
	f.events, f.first = f.events[n:], f.first+int64(n)
}

func (f *feed) after(cursor string, n int) ([]broker.Event, string) {
	seen := f.first - 1
	if boot, num, ok := strings.Cut(cursor, "."); ok && boot == f.boot {
		if v, err := strconv.ParseInt(num, 10, 64); err == nil && v >= f.first && v < f.first+int64(len(f.events)) {
			seen = v
		}
	}
	rest := f.events[seen-f.first+1:]
	out := append([]broker.Event(nil), rest[:min(n, len(rest))]...)
	return out, f.boot + "." + strconv.FormatInt(seen+int64(len(out)), 10)
}

// Follow implements broker.LeaseTable. An unknown cursor counts as "". max is limited to
// 1..1000. If ctx ends first, its error is returned.
func (s *Store) Follow(ctx context.Context, cursor string, max int, wait time.Duration) ([]broker.Event, string, error) {
	max = min(maxEvents, max)
	if max < 1 {
		max = 1
	}
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		if _, err := s.begin(ctx); err != nil {
			return nil, "", err
		}
		events, next := s.feed.after(cursor, max)
		wake := s.feed.wake
		s.mu.Unlock()
		if len(events) > 0 || wait <= 0 {
			return events, next, nil
		}
		select {
		case <-wake:
		case <-timeout:
			return nil, next, nil
		case <-ctx.Done():
			return nil, "", fmt.Errorf("live store: %w", ctx.Err())
		}
	}
}
