// Package chart is the geometry of small charts: numbers in, rectangles and points out.
// It writes no markup. Templates draw what it says as inline SVG, with attributes alone,
// stretched to whatever room there is; so there is no text in a chart, and labels are
// text of the page.
//
//	stack.go  stacked columns
//	line.go   a line without axes
package chart
