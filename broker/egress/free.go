package egress

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"ebb/broker/exact"
)

// free bounds what a box has ebb do for nothing: each of these costs a query or a line.
type free struct {
	tells   *rate.Limiter // answers to what the box is
	unknown *rate.Limiter // placeholders that have not been good in this box
	missed  *rate.Limiter // what may leave without one, beside once a second
	knocks  *rate.Limiter // SSH connections to hosts that no lease was for
	lines   *rate.Limiter // about refusals, in the log
	names   *rate.Limiter // that a certificate is made for
	empty   bucket        // tunnels of which no request has left

	mu      sync.Mutex
	good    *simplelru.LRU[string, bool]     // leases that were used last
	hosts   *simplelru.LRU[exact.Host, bool] // of SSH, that a lease was for last
	leftOut int64                            // refusals that are in no line
}

// Bounds of one box: at once, and each second.
const (
	tellsAtOnce, tellsPerSecond     = 30, 2
	unknownAtOnce, unknownPerSecond = 60, 4
	linesAtOnce, linesPerSecond     = 40, 2
	namesAtOnce, namesPerSecond     = 64, 2
	emptyAtOnce, emptyPerSecond     = 128, 4
	maxGood                         = 256
)

func newFree() (*free, error) {
	good, err := simplelru.NewLRU[string, bool](maxGood, nil)
	hosts, herr := simplelru.NewLRU[exact.Host, bool](maxGood, nil)
	return &free{
		tells: rate.NewLimiter(tellsPerSecond, tellsAtOnce), unknown: rate.NewLimiter(unknownPerSecond, unknownAtOnce),
		missed: rate.NewLimiter(unknownPerSecond, unknownAtOnce), knocks: rate.NewLimiter(unknownPerSecond, unknownAtOnce),
		lines: rate.NewLimiter(linesPerSecond, linesAtOnce), good: good, hosts: hosts,
		names: rate.NewLimiter(namesPerSecond, namesAtOnce), empty: bucket{left: emptyAtOnce},
	}, errors.Join(err, herr)
}

// asks reports whether the broker is asked for a lease: for one that was good as often as
// a box likes, for others so often and no more.
func (f *free) asks(leaseID string) bool {
	f.mu.Lock()
	_, is := f.good.Get(leaseID)
	f.mu.Unlock()
	return is || f.unknown.Allow()
}

// judged notes whether a lease was good.
func (f *free) judged(leaseID string, good bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if good {
		f.good.Add(leaseID, true)
	} else {
		f.good.Remove(leaseID)
	}
}

// reaches reports whether the broker is asked for a lease to a host of SSH: for one that a
// lease was for as often as a box likes, for others so often and no more.
func (f *free) reaches(h exact.Host) bool {
	f.mu.Lock()
	_, is := f.hosts.Get(h)
	f.mu.Unlock()
	return is || f.knocks.Allow()
}

// reached notes whether there was a lease to a host.
func (f *free) reached(h exact.Host, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if is {
		f.hosts.Add(h, true)
	} else {
		f.hosts.Remove(h)
	}
}

// bucket is a limiter to which what was taken can be given back.
type bucket struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at); !b.at.IsZero() && passed > 0 {
		b.left = min(b.left+passed.Seconds()*emptyPerSecond, emptyAtOnce)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (b *bucket) give() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+1, emptyAtOnce)
}

// line reports whether a refusal has a line in the log, and how many before it have none.
func (f *free) line() (leftOut int64, now bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lines.Allow() {
		f.leftOut++
		return 0, false
	}
	leftOut, f.leftOut = f.leftOut, 0
	return leftOut, true
}
