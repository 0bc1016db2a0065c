package broker

import "sync"

// tally is how many credentials of a provider are in no final state: what the record
// was counted to hold, and what this process has done to it since. What other
// replicas do is known with the next count.
type tally struct {
	mu      sync.Mutex
	n       int
	moving  int // changes on their way to the record
	moves   int // changes so far
	refused int // counts in a row that something moved under
}

// staleCounts is how many counts may be dropped in a row because something moved
// meanwhile; after that a count that may be off by what moved is better than none.
const staleCounts = 10

// now is the tally at this moment.
func (t *tally) now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// move says that the record is about to change. done must be called with what has
// come of it: a count that saw only half of that is not believed.
func (t *tally) move() (done func(by int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moving++
	return func(by int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.n += by
		t.moves++
		t.moving--
	}
}

// count begins a count of the record; set ends it.
func (t *tally) count() (set func(n int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	moves, moving := t.moves, t.moving
	return func(n int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if (moving > 0 || t.moving > 0 || t.moves != moves) && t.refused < staleCounts {
			t.refused++
			return
		}
		t.n, t.refused = n, 0
	}
}
