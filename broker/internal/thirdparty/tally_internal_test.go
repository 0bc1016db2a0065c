package thirdparty

import (
	"testing"
)

// TestTally: a count is used only when no change overlaps it, or when too many counts in a row
// were dropped.
func TestTally(t *testing.T) {
	t.Parallel()
	var y tally
	want := func(n int, what string) {
		t.Helper()
		if y.Now() != n {
			t.Errorf("%s: got %d, want %d", what, y.Now(), n)
		}
	}
	y.Count()(2)
	want(2, "counted")
	y.Move()(1)
	want(3, "one more")

	// The database has the change, this process has not noted it yet: it would count twice.
	done := y.Move()
	set := y.Count()
	set(4)
	done(1)
	want(4, "a change under way when the count began")

	set = y.Count()
	done = y.Move()
	set(5)
	done(1)
	want(5, "a change under way when the count ended")

	set = y.Count()
	y.Move()(-1)
	set(5)
	want(4, "a change that came and went during the count")

	y.Move()(0)
	want(4, "a change that failed")
	y.Count()(1)
	want(1, "nothing moved")

	for range staleCounts {
		set := y.Count()
		y.Move()(1)
		set(100)
	}
	want(1+staleCounts, "too much moves")
	set = y.Count()
	y.Move()(1)
	set(7)
	want(7, "an inexact count is used after too many dropped ones")
}
