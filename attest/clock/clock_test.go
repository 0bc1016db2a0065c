package clock_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/clock"
)

// turned is a wall clock and a steady one, each turned by itself.
type turned struct {
	wall   time.Time
	steady time.Duration
}

func (c *turned) pass(d time.Duration) { c.wall, c.steady = c.wall.Add(d), c.steady+d }

func newTurned() (*turned, *clock.Clock) {
	c := &turned{wall: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	return c, clock.New(func() time.Time { return c.wall }, func() time.Duration { return c.steady })
}

// TestJumpAheadAndBack: while a jump ahead is not settled the time that surely passed goes
// on by the steady clock, and afterwards nothing is left of it.
//
//ebb:invariant I4 A brief forward jump of the clock closes no task, removes no replay claim, and causes no later refusal of a fresh proof
func TestJumpAheadAndBack(t *testing.T) {
	t.Parallel()
	c, k := newTurned()
	c.pass(time.Hour)
	right := k.Read().Now
	c.wall = c.wall.Add(48 * time.Hour)
	c.pass(2 * time.Second)
	if r := k.Read(); r.Jump != 48*time.Hour || !r.Sure.Equal(right.Add(2*time.Second)) || !r.Now.Equal(c.wall) {
		t.Errorf("ahead: %+v", r)
	}
	c.wall = c.wall.Add(-48 * time.Hour)
	if r := k.Read(); r.Jump != 0 || !r.Sure.Equal(c.wall) {
		t.Errorf("back: %+v", r)
	}
	if n := k.Jumps(); n != 2 {
		t.Errorf("Jumps returned %d, want 2", n)
	}
	k.Read()
	c.wall = c.wall.Add(-time.Minute)
	k.Read()
	k.Read()
	c.pass(clock.Settles)
	k.Read()
	if n := k.Jumps(); n != 4 {
		t.Errorf("after a jump back that has settled, Jumps returned %d, want 4", n)
	}
}

// TestJumpSettles: after the settling time, the clock's reading counts as the time again, for
// jumps ahead and back.
func TestJumpSettles(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{48 * time.Hour, -48 * time.Hour, time.Minute, -time.Minute} {
		c, k := newTurned()
		c.wall = c.wall.Add(by)
		if r := k.Read(); r.Jump != by || r.Sure.After(r.Now) {
			t.Errorf("%s: %+v", by, r)
		}
		c.pass(clock.Settles - time.Second)
		if r := k.Read(); r.Jump != by {
			t.Errorf("%s, before it settles: %+v", by, r)
		}
		c.pass(time.Second)
		if r := k.Read(); r.Jump != 0 || !r.Sure.Equal(c.wall) {
			t.Errorf("%s, settled: %+v", by, r)
		}
	}
}

// TestJumpAfterJump: each jump has its own time to settle.
func TestJumpAfterJump(t *testing.T) {
	t.Parallel()
	c, k := newTurned()
	c.wall = c.wall.Add(time.Hour)
	k.Read()
	c.pass(clock.Settles - time.Second)
	c.wall = c.wall.Add(time.Hour)
	k.Read()
	c.pass(2 * time.Second)
	if r := k.Read(); r.Jump != 2*time.Hour {
		t.Errorf("the second jump: %+v", r)
	}
}

// After the clock was set ahead, less time has passed since an earlier reading than the clock shows: less by
// as much as it was set ahead, and no more than all time since then.
func TestLatest(t *testing.T) {
	t.Parallel()
	c, k := newTurned()
	now := func() time.Time { return k.Read().Now }
	latest := func(when string, shown, want time.Time) {
		t.Helper()
		if got := k.Read().Latest(shown); !got.Equal(want) {
			t.Errorf("%s: Latest(%s) = %s, want %s", when, shown, got, want)
		}
	}
	first := now()
	c.pass(time.Hour)
	latest("never set", first, first)

	c.wall = c.wall.Add(-30 * time.Minute)
	behind := now()
	c.pass(time.Minute)
	latest("behind", behind, behind)
	c.wall = c.wall.Add(30 * time.Minute)
	back := now()
	c.pass(time.Minute)
	latest("back, shown while behind", behind, back.Add(-time.Minute))
	latest("back, shown before", first, first.Add(30*time.Minute))
	latest("back, shown since", back, back)

	c.wall = c.wall.Add(10 * time.Second)
	ahead := now()
	latest("ahead", back, ahead)
	c.pass(clock.Settles)
	now()
	latest("ahead and settled", ahead, ahead)
	latest("ahead and settled, shown before", back, ahead)

	c.pass(time.Hour)
	ahead = now()
	c.wall = c.wall.Add(48 * time.Hour)
	now()
	c.wall = c.wall.Add(-48 * time.Hour)
	latest("after a jump that did not last", ahead, ahead)
	latest("after a jump that did not last, shown long before", first, first.Add(30*time.Minute+10*time.Second))
}

// TestDrift: a clock that is corrected slowly never jumps.
func TestDrift(t *testing.T) {
	t.Parallel()
	c, k := newTurned()
	for range 1000 {
		c.pass(time.Minute)
		c.wall = c.wall.Add(30 * time.Millisecond)
		if r := k.Read(); r.Jump != 0 || !r.Sure.Equal(c.wall) {
			t.Fatalf("%+v", r)
		}
	}
}

// TestWithoutMonotonicReading: a clock that tests turn jumps back only, as ahead is how its
// time passes.
func TestWithoutMonotonicReading(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	k := clock.New(func() time.Time { return now }, nil)
	now = now.Add(48 * time.Hour)
	if r := k.Read(); r.Jump != 0 || !r.Sure.Equal(now) || r.Steady != 48*time.Hour {
		t.Errorf("ahead: %+v", r)
	}
	now = now.Add(-time.Hour)
	if r := k.Read(); r.Jump != -time.Hour || !r.Sure.Equal(now) || r.Steady != 48*time.Hour {
		t.Errorf("back: %+v", r)
	}
	real := clock.New(nil, nil)
	if r := real.Read(); r.Jump != 0 || time.Since(r.Now) > time.Hour {
		t.Errorf("the machine's clock: %+v", r)
	}
}

//ebb:invariant I4 After a fast clock is corrected, ebb refuses only proofs of the time spans whose replay claims were removed
func TestPast(t *testing.T) {
	t.Parallel()
	var p clock.Past
	if p.Has(0) {
		t.Error("nothing was dropped")
	}
	p.Add(100, 110)
	p.Add(5000, 5010)
	p.Add(105, 120)
	p.Add(121, 130)
	for at, want := range map[int64]bool{99: false, 100: true, 130: true, 131: false, 4999: false, 5000: true, 5010: true, 5011: false} {
		if p.Has(at) != want {
			t.Errorf("%d: %v", at, !want)
		}
	}
	for i := range int64(1000) { // bounded, and then it holds more, not less
		p.Add(10_000+10*i, 10_000+10*i)
	}
	for i := range int64(1000) {
		if !p.Has(10_000 + 10*i) {
			t.Fatalf("%d is gone", 10_000+10*i)
		}
	}
	if p.Has(3000) {
		t.Error("the widest gap is closed")
	}
}
