package egress

import (
	"fmt"
	"testing"
)

// No task has more than its bound, many that take what they can leave room for another,
// and what is given back is there for others.
func TestShare(t *testing.T) {
	t.Parallel()
	const most, all = taskEnds, maxEnds
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
		t.Errorf("what was given back: %d for another", n)
	}
	if left := all - s.n; s.take("new", left+1, all, all) || !s.take("new", left, all, all) {
		t.Errorf("of %d that are left", left)
	}
}
