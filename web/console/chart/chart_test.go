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
		below := map[float64]float64{}
		drawn := 0.0
		for _, r := range c.Rects {
			if r.X < 0 || r.X+r.W > c.Width || r.Y < 0 || r.H <= 0 || r.Y+r.H > c.Height+1e-6 {
				t.Fatalf("%+v is outside of %+v", r, c)
			}
			if at, some := below[r.X]; some && math.Abs(r.Y+r.H-at) > 1e-6 {
				t.Fatalf("%+v does not stand on %v", r, at)
			}
			below[r.X] = r.Y
			drawn += r.H * float64(c.Top) / c.Height
		}
		sum := 0
		for _, s := range series {
			sum += s.Sum()
		}
		if math.Abs(drawn-float64(sum)) > 1e-6*float64(sum)+1e-6 {
			t.Fatalf("drawn %v of %d", drawn, sum)
		}
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 1, 1: 1, 2: 2, 3: 4, 5: 5, 6: 10, 11: 20, 41: 50, 51: 100, 4001: 5000, math.MaxInt64 / 3: 4e18} {
		if c := chart.NewStack(chart.Series{Of: []int{n}}); c.Top != want {
			t.Errorf("%d: the upper edge is %d, want %d", n, c.Top, want)
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
