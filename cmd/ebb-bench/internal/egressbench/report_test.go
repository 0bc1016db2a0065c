package egressbench

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// Each figure has its own median.
func TestMedian(t *testing.T) {
	t.Parallel()
	row := func(rate float64, p50, cpu time.Duration, errors int) Row {
		return Row{Result: load.Result{Op: opRequest, Ops: 10, Rate: rate, P50: p50, Errors: errors}, CPU: cpu}
	}
	got := median([]Row{row(3, 10, 700, 0), row(1, 30, 500, 1), row(2, 20, 600, 0)})
	if got.Rate != 2 || got.P50 != 20 || got.CPU != 600 || got.Ops != 30 || got.Errors != 1 {
		t.Errorf("got %+v", got)
	}
	if got := median([]Row{row(3, 10, 0, 0), row(1, 30, 0, 0)}); got.Rate != 2 || got.P50 != 20 {
		t.Errorf("of two: %+v", got)
	}
}

// A bound is compared with the matching row, and is left out without one.
func TestJudge(t *testing.T) {
	t.Parallel()
	row := func(way string, clients int, rate float64, p50, cpu time.Duration) Row {
		return Row{Result: load.Result{Op: opRequest, Clients: clients, Rate: rate, P50: p50}, Way: way, CPU: cpu}
	}
	r := Report{Rows: []Row{
		row(wayStraight, 1, 0, 100*time.Microsecond, 0), row(wayBase, 1, 0, 299*time.Microsecond, 0), row(wayMITM, 1, 0, 301*time.Microsecond, 0),
		row(wayUnix, 16, 1000, 0, 40*time.Microsecond), row(wayBase, 16, 590, 0, 99*time.Microsecond), row(wayMITM, 16, 590, 0, 101*time.Microsecond),
		row(wayBase, 64, 1, 0, time.Second),
	}}
	r.judge()
	want := []bool{true, false, true, false, false, true}
	if len(r.Bounds) != len(want) {
		t.Fatalf("%d bounds, want %d: %+v", len(r.Bounds), len(want), r.Bounds)
	}
	for i, b := range r.Bounds {
		if b.Holds != want[i] {
			t.Errorf("%s: %v of %v %s holds: %v", b.Name, b.Measured, b.Bound, b.Unit, b.Holds)
		}
	}
}
