package egress

import "cmp"

// share counts what tasks hold of something that all of them need. It is not safe for
// concurrent use.
type share struct {
	n  int
	of map[string]int // by the task of a runner's; those below it count with it

	parts int // of what is left one task may have one; 0 = shares
}

// Requests that have no end on the record yet: of one task, and of all.
const (
	taskEnds = 512
	maxEnds  = (shares + 1) * taskEnds
)

// shares says which part of what is left one task may have: a sixteenth.
const shares = 16

// take counts n more for a task, unless it would have more than most, or more than its part
// of what is left of all. So a hundred tasks that take what they can leave room for one that
// comes later (dynamic thresholds: Choudhury and Hahne, 1998).
func (s *share) take(task string, n, most, all int) bool {
	left := all - s.n
	if had := s.of[task]; n > left || had+n > most || had > 0 && had+n > left/cmp.Or(s.parts, shares) {
		return false
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.n += n
	s.of[task] += n
	return true
}

// give counts n less.
func (s *share) give(task string, n int) {
	s.n -= n
	if s.of[task] -= n; s.of[task] == 0 {
		delete(s.of, task)
	}
}
