package chart_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/web/console/chart"
)

// TestStack: the height of every rectangle is proportional to its number; none
// overlap or leave the chart.
func TestStack(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var series []chart.Series
		for range rnd.IntN(5) {
			s := chart.Series{}
			for range rnd.IntN(40) {
				s.Of = append(s.Of, rnd.IntN(2000)*rnd.IntN(2000)-50)
			}
			series = append(series, s)
		}
		c := chart.NewStack(series...)
		drawn, sum := 0.0, 0
		for _, col := range c.Columns {
			y := c.Height
			for _, r := range col.Rects {
				if y -= r.H; r.H <= 0 || math.Abs(r.Y-y) > 1e-6 || r.Y < 0 {
					t.Fatalf("%+v does not stand on %v in %+v", r, y+r.H, c)
				}
				drawn += r.H * float64(c.Top) / c.Height
			}
			sum += col.Sum
		}
		of := 0
		for _, s := range series {
			of += s.Sum()
		}
		if sum != of || math.Abs(drawn-float64(sum)) > 1e-6*float64(sum)+1e-6 {
			t.Fatalf("drawn %v and %d of %d", drawn, sum, of)
		}
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 1, 1: 1, 2: 2, 3: 4, 5: 5, 6: 10, 11: 20, 41: 50, 51: 100, 4001: 5000, math.MaxInt64 / 3: 4e18} {
		if c := chart.NewStack(chart.Series{Of: []int{n}}); c.Top != want {
			t.Errorf("%d: the upper edge is %d, want %d", n, c.Top, want)
		} else if last := len(c.Axis) - 1; c.Axis[0] != want || c.Axis[last] != 0 || last == 2 && c.Axis[1]*2 != want {
			t.Errorf("%d: the axis is %v", n, c.Axis)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of   []int
		want string
	}{
		{nil, "0,96.00 10,96.00"}, {[]int{7}, "0,4.00 10,4.00"}, {[]int{0, 2, 1}, "0,96.00 10,4.00 20,50.00"}, {[]int{-5, 0}, "0,96.00 10,96.00"},
	} {
		if got := chart.NewLine(tt.of); got.Points != tt.want || strings.Contains(got.Points, "N") {
			t.Errorf("%v: %q, want %q", tt.of, got.Points, tt.want)
		}
	}
}
