// Package handover tells the first process of a box what to do, where it can inherit nothing: over a
// socket that is in the box before anything else is, with descriptors (unix(7), SCM_RIGHTS).
//
//	handover.go   Order, Send, Receive
//
// The connection stays open as long as the box: its end is that of the runner.
package handover
