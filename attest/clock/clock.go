package clock

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Settles is how long a jump must last before its time counts as passed. It is
	// longer than a DPoP proof or its claim lives, one minute each and one of margin.
	Settles = 3 * time.Minute
	// tolerance is how far the two clocks may part between two readings: a slow
	// correction by NTP is no jump.
	tolerance = 5 * time.Second
)

// Clock is a wall clock whose jumps are noticed. It is safe for concurrent use.
type Clock struct {
	wall   func() time.Time
	steady func(time.Time) time.Duration
	ref    atomic.Int64 // what the wall clock shows when the steady one shows 0, in nanoseconds since 1970
	jumped atomic.Bool

	mu    sync.Mutex
	jump  time.Duration // of the wall clock, which has not settled yet
	since time.Duration // when it was first seen, by the steady clock
}

// Reading is one look at a Clock.
type Reading struct {
	Now    time.Time     // what the wall clock shows
	Sure   time.Time     // the time that has surely passed: never later than Now
	Jump   time.Duration // how far the wall clock jumped ahead, or back when negative; 0 = it is settled
	Steady time.Duration // since New, by a clock that nobody sets
}

// New makes a Clock of wall; nil is time.Now. steady is a clock that nobody sets and
// that also runs while the machine is suspended; nil takes the monotonic reading that
// wall returns, and for a wall without one its movement forwards.
func New(wall func() time.Time, steady func() time.Duration) *Clock {
	if wall == nil {
		wall = time.Now
	}
	c := &Clock{wall: wall}
	if steady == nil {
		c.steady = monotonic(wall())
	} else {
		base := steady()
		c.steady = func(time.Time) time.Duration { return steady() - base }
	}
	now := wall()
	c.ref.Store(now.UnixNano() - int64(c.steady(now)))
	return c
}

// monotonic counts from base on, and never backwards.
func monotonic(base time.Time) func(time.Time) time.Duration {
	if base == base.Round(0) { //nolint:staticcheck // == tells whether there is a monotonic reading
		return forwards(base)
	}
	var slept atomic.Int64
	asleep := suspended()
	return func(now time.Time) time.Duration {
		d := now.Sub(base)
		// Only a wall clock that parts from the monotonic one can mean a suspended machine.
		if apart := now.Round(0).Sub(base.Round(0)) - d - time.Duration(slept.Load()); !within(int64(apart)) {
			slept.Store(int64(suspended() - asleep))
		}
		return d + time.Duration(slept.Load())
	}
}

// forwards is the movement forwards of a clock without a monotonic reading.
func forwards(base time.Time) func(time.Time) time.Duration {
	var most atomic.Int64
	return func(now time.Time) time.Duration {
		d := int64(now.Sub(base))
		for {
			before := most.Load()
			if d <= before {
				return time.Duration(before)
			}
			if most.CompareAndSwap(before, d) {
				return time.Duration(d)
			}
		}
	}
}

// Read looks at both clocks.
func (c *Clock) Read() Reading {
	now := c.wall()
	r := Reading{Now: now, Sure: now, Steady: c.steady(now)}
	ref := c.ref.Load()
	apart := now.UnixNano() - int64(r.Steady) - ref
	if within(apart) && !c.jumped.Load() {
		if apart != 0 {
			c.ref.CompareAndSwap(ref, ref+apart)
		}
		return r
	}
	return c.settle(r)
}

func within(d int64) bool { return d <= int64(tolerance) && d >= -int64(tolerance) }

// settle finds out how long a jump has lasted.
func (c *Clock) settle(r Reading) Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	apart := r.Now.UnixNano() - int64(r.Steady) - c.ref.Load()
	switch {
	case within(apart): // it is back
		c.jump = 0
	case !within(apart-int64(c.jump)) || !c.jumped.Load():
		c.jump, c.since = time.Duration(apart), r.Steady
	case r.Steady-c.since >= Settles:
		c.ref.Add(apart)
		c.jump = 0
	}
	c.jumped.Store(c.jump != 0)
	if r.Jump = c.jump; r.Jump > 0 {
		r.Sure = time.Unix(0, c.ref.Load()+int64(r.Steady)).In(r.Now.Location())
	}
	return r
}

// maxSpans bounds what a Past keeps.
const maxSpans = 64

// Past is which single-use values a memory has dropped, by the moment until which each
// was good. After the clock was set back such a value may come again, and nothing can
// tell whether it was used. The zero Past holds nothing. It is not safe for concurrent use.
type Past struct {
	spans []span // by from, none touches the next
}

type span struct{ from, to int64 }

// Add notes that everything that was good until a moment from from to to may have been
// dropped. Moments are numbers of one unit. Beyond 64 spans the two that are closest
// become one: Past then covers more than was dropped, never less.
func (p *Past) Add(from, to int64) {
	if n := len(p.spans); n > 0 && from >= p.spans[n-1].from && from <= p.spans[n-1].to+1 { // as almost always
		p.spans[n-1].to = max(p.spans[n-1].to, to)
		return
	}
	p.spans = append(p.spans, span{from, to})
	slices.SortFunc(p.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	merged := p.spans[:1]
	for _, s := range p.spans[1:] {
		if last := &merged[len(merged)-1]; s.from <= last.to+1 {
			last.to = max(last.to, s.to)
		} else {
			merged = append(merged, s)
		}
	}
	p.spans = merged
	if len(p.spans) <= maxSpans {
		return
	}
	closest := 1
	for i := 2; i < len(p.spans); i++ {
		if p.spans[i].from-p.spans[i-1].to < p.spans[closest].from-p.spans[closest-1].to {
			closest = i
		}
	}
	p.spans[closest-1].to = p.spans[closest].to
	p.spans = slices.Delete(p.spans, closest, closest+1)
}

// Has reports whether something that was good until then may have been dropped.
func (p *Past) Has(until int64) bool {
	i, _ := slices.BinarySearchFunc(p.spans, until, func(s span, at int64) int { return cmp.Compare(s.to, at) })
	return i < len(p.spans) && p.spans[i].from <= until
}
