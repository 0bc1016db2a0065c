package egress

import (
	"fmt"
	"testing"
)

// No task exceeds its maximum, many tasks that take all they can leave room for another, and
// returned amounts are available to others.
//
//ebb:invariant I12 The number of egress requests of a task without a completion entry in the audit log is limited
//ebb:invariant I12 The number of egress requests of all tasks without a completion entry is limited, and no task can use the whole limit
func TestShare(t *testing.T) {
	t.Parallel()
	const most, all = taskPending, maxPending
	var s share
	fill := func(task string) (n int) {
		for s.take(task, 1, most, all) {
			n++
		}
		return n
	}
	if n := fill("one"); n != most {
		t.Errorf("one task has %d", n)
	}
	for i := range 100 {
		fill(fmt.Sprint("greedy ", i))
	}
	if s.n > all {
		t.Errorf("%d in all", s.n)
	}
	if !s.take("late", 1, most, all) {
		t.Errorf("nothing is left for another task: %d of %d are taken", s.n, all)
	}
	before := s.n
	s.give("late", 1)
	for range most {
		s.give("one", 1)
	}
	if s.n != before-most-1 || len(s.of) > 100 || s.of["one"] != 0 {
		t.Errorf("%d in all, %d of the first task", s.n, s.of["one"])
	}
	if n := fill("late"); n < most/32 {
		t.Errorf("after a return: %d for another task", n)
	}
	if left := all - s.n; s.take("new", left+1, all, all) || !s.take("new", left, all, all) {
		t.Errorf("of %d that are left", left)
	}
}

// With few connections in total one task gets enough for a sandbox; with many, a hundred tasks
// leave room for another.
//
//ebb:invariant I12 The connections of a task, including those to upstreams, are limited to a share of the total, so that no task uses all
func TestSharesOfPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ all, greedy, first int }{{256, 4, 51}, {4096, 20, 455}, {32768, 100, 1927}} {
		p := newConnectionLimit(c.all)
		for i := range c.greedy {
			n := 0
			for p.take(fmt.Sprint(i)) != nil {
				n++
			}
			if i == 0 && n != c.first {
				t.Errorf("of %d one task has %d", c.all, n)
			}
		}
		give := p.take("late")
		if give == nil || p.take("late") == nil || p.take("late") == nil {
			t.Fatalf("of %d nothing is left for another task", c.all)
		}
		left := p.of.n
		if give(); p.of.n != left-1 {
			t.Error("it was not given back")
		}
		if give(); p.of.n != left-1 {
			t.Error("it was given back twice")
		}
	}
}
