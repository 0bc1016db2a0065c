// Package chart computes the geometry of small charts: it takes numbers and
// returns rectangles and points. It writes no markup. Templates draw the result
// as inline SVG, with attributes only, stretched to the available width. A
// chart therefore contains no text; its numbers and labels are text of the page.
//
//	stack.go  stacked columns
//	line.go   a line without axes
package chart
