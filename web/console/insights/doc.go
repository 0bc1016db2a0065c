// Package insights shows the statistics of requests and credentials on the console.
//
// insights.go reads the counts of a time window from the core and turns them
// into charts (package chart) and tables with the same numbers.
package insights
