// Package boxtest is what tests of kinds of boxes have in common.
//
//	bed.go   Bed: boxes of a test, and what became of them
//	try.go   Try: a hostile program, to be run in a box
package boxtest
