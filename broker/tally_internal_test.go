package broker

import "testing"

// TestTally: a count of the record is believed only when nothing moved under it, or
// nothing was believed for long.
func TestTally(t *testing.T) {
	t.Parallel()
	var y tally
	want := func(n int, what string) {
		t.Helper()
		if y.now() != n {
			t.Errorf("%s: got %d, want %d", what, y.now(), n)
		}
	}
	y.count()(2)
	want(2, "counted")
	y.move()(1)
	want(3, "one more")

	// The record has the change, this process has not noted it yet: counted twice.
	done := y.move()
	set := y.count()
	set(4)
	done(1)
	want(4, "a change under way when the count began")

	set = y.count()
	done = y.move()
	set(5)
	done(1)
	want(5, "a change under way when the count ended")

	set = y.count()
	y.move()(-1)
	set(5)
	want(4, "a change that came and went during the count")

	y.move()(0)
	want(4, "a change that failed")
	y.count()(1)
	want(1, "nothing moved")

	for range staleCounts {
		set := y.count()
		y.move()(1)
		set(100)
	}
	want(1+staleCounts, "too much moves")
	set = y.count()
	y.move()(1)
	set(7)
	want(7, "any count is better than none for ever")
}
