package chart

import (
	"fmt"
	"strings"
)

// Line is a chart of one line.
type Line struct {
	Width, Height float64
	Points        string // value of the points attribute of an SVG polyline
}

// NewLine draws numbers from left to right, with the highest at the upper edge.
// An empty list, or zeros only, gives a line at the lower edge.
func NewLine(of []int) Line {
	const (
		edge   = 4    // keeps the stroke inside the drawing area
		column = 10.0 // distance between two numbers
	)
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
	l := Line{Width: float64(len(of)-1) * column, Height: height}
	var points []string
	for i, v := range of {
		points = append(points, fmt.Sprintf("%g,%.2f", float64(i)*column, height-edge-(height-2*edge)*float64(max(v, 0))/float64(top)))
	}
	l.Points = strings.Join(points, " ")
	return l
}
