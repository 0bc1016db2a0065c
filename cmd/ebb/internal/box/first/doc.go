// Package first is the first process of a box as its runner holds it: by a pidfd, and by what the
// shim says of itself.
//
//	first.go   Process: Signal, Kill, Wait
//	other.go   none but on Linux
package first
