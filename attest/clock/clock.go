package clock

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Settles is how long a jump must last before its time counts as passed. A DPoP proof
	// and its replay claim live one minute each; the third minute is a margin.
	Settles = 3 * time.Minute
	// tolerance is how far the two clocks may differ between two readings. A slow correction
	// by NTP is within it and is no jump.
	tolerance = 5 * time.Second
)

// Clock is a wall clock that detects its own jumps. It is safe for concurrent use.
type Clock struct {
	wall   func() time.Time
	steady func(time.Time) time.Duration
	ref    atomic.Int64 // the wall clock's time at which the steady clock was 0, in nanoseconds since 1970
	jumped atomic.Bool
	jumps  atomic.Int64

	low     atomic.Int64 // the lowest value that ref has had, or would have had if each jump had settled at once
	aheadAt atomic.Int64 // the steady clock's time when the wall clock was last set ahead; -1 for never

	mu    sync.Mutex
	jump  time.Duration // the jump of the wall clock that has not settled yet
	since time.Duration // when the jump was first seen, by the steady clock
}

// Reading is the result of reading a Clock once.
type Reading struct {
	Now    time.Time     // the wall clock's time
	Sure   time.Time     // the time that has certainly passed; never later than Now
	Jump   time.Duration // how far the wall clock jumped ahead, or back when negative; 0 when it has settled
	Steady time.Duration // the time since New, by a clock that is never set

	aheadAt  time.Time     // when the wall clock was last set ahead, in its present time; zero for never
	maxShift time.Duration // the most by which a time shown before aheadAt can be too early
}

// Latest returns the latest time, by the present wall clock, at which the Clock can have shown t. If the wall
// clock was set ahead after it showed t, less time has passed since t than the difference between now and t.
// The result is then later than t.
func (r Reading) Latest(t time.Time) time.Time {
	if !t.Before(r.aheadAt) {
		return t
	}
	if later := t.Add(r.maxShift); later.Before(r.aheadAt) {
		return later
	}
	return r.aheadAt
}

// New returns a Clock that reads wall; nil means time.Now. steady is a clock that is never
// set and that also runs while the machine is suspended. If it is nil, the Clock uses the
// monotonic reading of wall's results. For a wall without monotonic readings, it counts only
// forward movements.
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
	ref := now.UnixNano() - int64(c.steady(now))
	c.ref.Store(ref)
	c.low.Store(ref)
	c.aheadAt.Store(-1)
	return c
}

// monotonic returns the time since base. The result never decreases.
func monotonic(base time.Time) func(time.Time) time.Duration {
	if base == base.Round(0) { //nolint:staticcheck // == reports whether base has a monotonic reading
		return forwards(base)
	}
	var slept atomic.Int64
	asleep := suspended()
	return func(now time.Time) time.Duration {
		d := now.Sub(base)
		// Only a difference between the wall clock and the monotonic clock can mean that the
		// machine was suspended.
		if apart := now.Round(0).Sub(base.Round(0)) - d - time.Duration(slept.Load()); !within(int64(apart)) {
			slept.Store(int64(suspended() - asleep))
		}
		return d + time.Duration(slept.Load())
	}
}

// forwards adds up the forward movements of a clock without a monotonic reading.
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

// Read reads both clocks and returns the result.
func (c *Clock) Read() Reading {
	now := c.wall()
	r := Reading{Now: now, Sure: now, Steady: c.steady(now)}
	ref := c.ref.Load()
	apart := now.UnixNano() - int64(r.Steady) - ref
	if within(apart) && !c.jumped.Load() {
		if apart != 0 {
			c.ref.CompareAndSwap(ref, ref+apart)
		}
	} else {
		r = c.settle(r)
	}
	if at := c.aheadAt.Load(); at >= 0 {
		r.aheadAt = now.Add(time.Duration(at) - r.Steady)
		r.maxShift = max(0, time.Duration(now.UnixNano()-int64(r.Steady)-c.low.Load()))
	}
	return r
}

func within(d int64) bool { return d <= int64(tolerance) && d >= -int64(tolerance) }

// Jumps returns a count that increases when the wall clock jumps or returns and when a jump settles.
// Unlike Reading.Jump, it also tells a caller that looks rarely of a jump that has returned.
func (c *Clock) Jumps() int64 { return c.jumps.Load() }

// settle sets Jump and Sure of r from how long a jump has lasted.
func (c *Clock) settle(r Reading) Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	ref := c.ref.Load()
	apart := r.Now.UnixNano() - int64(r.Steady) - ref
	before, ahead := c.jump, false
	c.low.Store(min(c.low.Load(), ref, ref+apart))
	switch {
	case within(apart): // the wall clock has returned
		c.jump, ahead = 0, before < 0
	case !within(apart-int64(c.jump)) || !c.jumped.Load():
		c.jump, c.since, ahead = time.Duration(apart), r.Steady, apart > int64(before)
	case r.Steady-c.since >= Settles:
		c.ref.Add(apart)
		c.jump = 0
	}
	if c.jump != before {
		c.jumps.Add(1)
	}
	if ahead {
		c.aheadAt.Store(int64(r.Steady))
	}
	c.jumped.Store(c.jump != 0)
	if r.Jump = c.jump; r.Jump > 0 {
		r.Sure = time.Unix(0, c.ref.Load()+int64(r.Steady)).In(r.Now.Location())
	}
	return r
}

// maxSpans is the maximum number of spans in a Past.
const maxSpans = 64

// Past records which single-use values a memory has dropped, by the time until which each
// value was valid. If the clock is set back, such a value may be presented again, and its
// earlier use is no longer known. The zero Past is empty. It is not safe for concurrent use.
type Past struct {
	spans []span // sorted by from; neighbours do not touch
}

type span struct{ from, to int64 }

// Add records that every value that was valid until a time between from and to may have been
// dropped. The times are numbers of one unit. When there are more than 64 spans, Add joins
// the two that are closest. Past then covers more than was dropped, never less.
func (p *Past) Add(from, to int64) {
	if n := len(p.spans); n > 0 && from >= p.spans[n-1].from && from <= p.spans[n-1].to+1 { // the usual case
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

// Has reports whether a value that was valid until the time until may have been dropped.
func (p *Past) Has(until int64) bool {
	i, _ := slices.BinarySearchFunc(p.spans, until, func(s span, at int64) int { return cmp.Compare(s.to, at) })
	return i < len(p.spans) && p.spans[i].from <= until
}
