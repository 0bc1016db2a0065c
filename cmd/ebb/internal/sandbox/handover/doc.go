// Package handover sends its command to the first process of a sandbox that
// cannot inherit descriptors: over a socket in the sandbox, with descriptors
// (unix(7), SCM_RIGHTS).
//
//	handover.go   Order, Send, Receive
//
// The connection stays open as long as the runner lives: the shim ends when it
// is closed.
package handover
