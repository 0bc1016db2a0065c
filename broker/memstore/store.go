package memstore

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
	"github.com/ebb-broker/ebb/broker"
)

const (
	// margin is how much longer than required entries are kept, so that a clock that is
	// set back a little has no effect.
	margin = time.Minute
	// retention is how long an expired lease still counts as expired.
	retention = 10 * time.Minute
	// sweepPerCall is the maximum number of entries that one call removes. It is more
	// than one call can add, so the sweep keeps up.
	sweepPerCall = 32
	// defaultMaxEntries is about 300 MB of claims.
	defaultMaxEntries = 1_000_000
)

// errFull means that no decision was made: the broker denies the request, and the rate
// limits end the flood.
var errFull = errors.New("live store is full: raise MaxEntries or use Redis")

var errClosed = errors.New("live store is closed")

// Config configures a Store. The zero value is ready to use.
type Config struct {
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Steady is a monotonic clock, which is never set; default the one of Now.
	Steady func() time.Duration
	// MaxEntries limits the sum of claims, rates, one-time values and paces: the entries
	// that unauthenticated callers can add. Default 1,000,000.
	MaxEntries int
}

// Store is a broker.LiveStore in this process. Make it with New.
type Store struct {
	clock      *clock.Clock
	maxEntries int

	mu     sync.Mutex
	closed bool
	marked bool
	memory string
	tasks  map[string]*task
	owners map[ownerKey]*owner
	due    dueIndex
	feed   feed
	claims map[string]claim
	rates  map[string]rate
	values map[string]value
	paces  map[string]pace
	expiry expiry
	// forgotten records, by the second of their Until, which claims were removed. After
	// the clock was set back, a claim with such a time is refused: it may have been made
	// before.
	forgotten clock.Past
}

var _ broker.LiveStore = (*Store)(nil)

// New makes an empty Store. Check fails with ErrLost until the first Mark.
func New(c Config) *Store {
	if c.MaxEntries <= 0 {
		c.MaxEntries = defaultMaxEntries
	}
	return &Store{
		clock:      clock.New(c.Now, c.Steady),
		maxEntries: c.MaxEntries,
		memory:     rand.Text(),
		tasks:      map[string]*task{},
		owners:     map[ownerKey]*owner{},
		due:        newDueIndex(),
		feed:       newFeed(),
		claims:     map[string]claim{},
		rates:      map[string]rate{},
		values:     map[string]value{},
		paces:      map[string]pace{},
		expiry:     newExpiry(),
	}
}

// begin locks the store for one call, does this call's part of the sweep, and returns the
// clock in Unix milliseconds. If the error is nil, the caller unlocks.
func (s *Store) begin(ctx context.Context) (now int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("live store: %w", err)
	}
	r := s.clock.Read()
	now = r.Now.UnixMilli()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, errClosed
	}
	past := r.Sure.UnixMilli() - margin.Milliseconds() // a clock that is ahead for a moment causes no removal
	s.feed.trim(past)
	for range sweepPerCall {
		it, ok := s.expiry.take(past)
		if !ok {
			break
		}
		if again := s.forget(it, past); again > 0 {
			s.expiry.add(again, it)
		}
	}
	return now, nil
}

// forget removes the entry of it if it has expired at ms, else returns when it will
// expire.
func (s *Store) forget(it item, ms int64) (again int64) {
	switch it.kind {
	case ofTask:
		if t := s.tasks[it.key]; t != nil {
			return t.forget(s, it.key, ms)
		}
	case ofLease:
		if t := s.tasks[it.key]; t != nil {
			exp, live := t.leases[it.sub]
			if again := exp + retention.Milliseconds(); live && again > ms {
				return again
			}
			t.forgetLease(it.sub)
		}
	case ofEnded:
		if t := s.tasks[it.key]; t != nil {
			if again := t.ended[it.sub] + retention.Milliseconds(); again > ms {
				return again
			}
			delete(t.ended, it.sub)
			s.dropShell(it.key, t)
		}
	case ofClaim:
		if c := s.claims[it.key]; c.until > ms {
			return c.until
		} else if c.until > 0 {
			s.forgotten.Add(c.until/1000-int64(margin/time.Second), c.until/1000)
		}
		delete(s.claims, it.key)
	case ofRate:
		if r := s.rates[it.key]; r.until > ms {
			return r.until
		}
		delete(s.rates, it.key)
	case ofValue:
		if v := s.values[it.key]; v.until > ms {
			return v.until
		}
		delete(s.values, it.key)
	case ofPace:
		if p := s.paces[it.key]; p.until > ms {
			return p.until
		}
		delete(s.paces, it.key)
	}
	return 0
}

// full reports whether callers may add no more claims, rates, values or paces.
func (s *Store) full() bool {
	return len(s.claims)+len(s.rates)+len(s.values)+len(s.paces) >= s.maxEntries
}

// Check implements broker.Guard. Memory loses no data while the process lives, so only a
// missing Mark counts as a loss.
func (s *Store) Check(ctx context.Context) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if !s.marked {
		return fmt.Errorf("live store was never marked complete: %w", broker.ErrLost)
	}
	return nil
}

// Mark implements broker.Guard.
func (s *Store) Mark(ctx context.Context) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.marked = true
	return nil
}

// Losses implements broker.Guard.
func (s *Store) Losses() int64 { return 0 }

// Memory implements broker.Guard.
func (s *Store) Memory() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.marked {
		return ""
	}
	return s.memory
}

// Close ends every waiting Follow. Every later call fails.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.feed.wakeAll()
	}
	return nil
}

// kind is the table of an item of the expiry queue.
type kind uint8

const (
	ofTask kind = iota
	ofLease
	ofEnded
	ofClaim
	ofRate
	ofValue
	ofPace
)

// item refers to an entry of a table that may have expired. It is a hint: the table
// decides whether the entry has expired.
type item struct {
	kind kind
	key  string
	sub  string // lease id
}

// expiry is a queue of items by the second in which they expire. It is a heap of seconds,
// not of items, so that adding an item is an append.
type expiry struct {
	seconds minHeap[int64]
	items   map[int64][]item
}

func newExpiry() expiry { return expiry{items: map[int64][]item{}} }

// add queues it for ms, rounded up to the next second.
func (e *expiry) add(ms int64, it item) {
	sec := ms/1000 + 1
	list, known := e.items[sec]
	if !known {
		heap.Push(&e.seconds, sec)
	}
	e.items[sec] = append(list, it)
}

// take removes one item whose second has passed at ms.
func (e *expiry) take(ms int64) (item, bool) {
	if len(e.seconds) == 0 || e.seconds[0]*1000 > ms {
		return item{}, false
	}
	sec := e.seconds[0]
	list := e.items[sec]
	it := list[len(list)-1]
	if list = list[:len(list)-1]; len(list) > 0 {
		e.items[sec] = list
	} else {
		delete(e.items, sec)
		heap.Pop(&e.seconds)
	}
	return it, true
}

// minHeap implements heap.Interface.
type minHeap[T cmp.Ordered] []T

func (h minHeap[T]) Len() int { return len(h) }

func (h minHeap[T]) Less(i, j int) bool { return h[i] < h[j] }

func (h minHeap[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *minHeap[T]) Push(v any) { *h = append(*h, v.(T)) }

func (h *minHeap[T]) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}
