package tasks

import (
	"math"
	"slices"
	"time"
)

// scale maps times to positions between 0 and a width. Its points are the times of events. The
// width of the interval between two of them grows with the logarithm of its length, so that events
// a second apart stay apart beside an hour without events.
type scale struct {
	points []time.Time // ascending, at least two
	at     []float64   // position of each point
}

func newScale(width float64, times ...time.Time) scale {
	slices.SortFunc(times, time.Time.Compare)
	s := scale{points: times, at: make([]float64, len(times))}
	for i := 1; i < len(times); i++ {
		s.at[i] = s.at[i-1] + math.Log1p(times[i].Sub(times[i-1]).Seconds())
	}
	if whole := s.at[len(s.at)-1]; whole > 0 {
		for i := range s.at {
			s.at[i] *= width / whole
		}
	}
	return s
}

// x returns the position of a time. Times outside of the scale are at its ends.
func (s scale) x(t time.Time) int {
	i, found := slices.BinarySearchFunc(s.points, t, time.Time.Compare)
	switch {
	case found || i == 0:
		return int(s.at[i])
	case i == len(s.points):
		return int(s.at[i-1])
	}
	part := float64(t.Sub(s.points[i-1])) / float64(s.points[i].Sub(s.points[i-1]))
	return int(s.at[i-1] + part*(s.at[i]-s.at[i-1]))
}

// time returns the time at a position.
func (s scale) time(x float64) time.Time {
	i, _ := slices.BinarySearch(s.at, x)
	if i == 0 || i == len(s.at) || s.at[i] == s.at[i-1] {
		return s.points[min(i, len(s.points)-1)]
	}
	part := (x - s.at[i-1]) / (s.at[i] - s.at[i-1])
	return s.points[i-1].Add(time.Duration(part * float64(s.points[i].Sub(s.points[i-1]))))
}
