// Package first controls the first process of a sandbox, by a pidfd and by the
// shim's reports.
//
//	first.go   Process: Signal, Kill, Wait
//	other.go   systems other than Linux: nothing
package first
