package report

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// TestAnswers: for random votes, the sums equal those of separate counting.
func TestAnswers(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for n := range 130 {
		var ds []broker.Decision
		var yes, hurried, lastYes, timed int
		bias := rnd.IntN(101)
		for i := range n {
			d := broker.Decision{Approve: rnd.IntN(100) < bias, Timed: rnd.IntN(5) > 0, Took: time.Duration(rnd.IntN(9000)) * time.Millisecond}
			ds = append(ds, d)
			if d.Approve {
				yes++
				if i < 50 && n >= 50 {
					lastYes++
				}
			}
			if d.Timed {
				timed++
			}
			if d.Timed && d.Took < 3*time.Second {
				hurried++
			}
		}
		a := answersOf("x", ds)
		if a.Yes != yes || a.No != n-yes || a.Hurried != hurried || a.Timed != timed || a.LastYes != lastYes || a.N() != n || a.Habit() != (lastYes >= 48) {
			t.Fatalf("of %d: %+v; want %d yes, %d hurried, %d of the last", n, a, yes, hurried, lastYes)
		}
		for percent, got := range map[int]time.Duration{50: a.Median, 90: a.P90} {
			atMost, below := 0, 0
			for _, d := range ds {
				if d.Timed && d.Took <= got {
					atMost++
				}
				if d.Timed && d.Took < got {
					below++
				}
			}
			if timed > 0 && (atMost*100 < timed*percent || below*100 >= timed*percent) {
				t.Fatalf("of %d: %d %% is %v: %d at most that, %d below", n, percent, got, atMost, below)
			}
		}
	}
}
