package chart

import (
	"fmt"
	"strings"
)

// Line is a chart of one line.
type Line struct {
	Width, Height float64
	Points        string // as the attribute of a polyline has them
}

// NewLine draws numbers from left to right, the highest at the upper edge. Nothing, or
// nothing but zeros, is a line at the lower edge.
func NewLine(of []int) Line {
	const edge = 4 // half of a line would be cut off otherwise
	top := 1
	for _, v := range of {
		top = max(top, v)
	}
	if len(of) == 0 {
		of = []int{0}
	}
	if len(of) == 1 {
		of = []int{of[0], of[0]}
	}
	l := Line{Width: float64(len(of)-1) * column, Height: Height}
	var points []string
	for i, v := range of {
		points = append(points, fmt.Sprintf("%g,%.2f", float64(i)*column, Height-edge-(Height-2*edge)*float64(max(v, 0))/float64(top)))
	}
	l.Points = strings.Join(points, " ")
	return l
}
