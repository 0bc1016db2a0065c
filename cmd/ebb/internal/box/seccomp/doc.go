// Package seccomp is the filter of system calls of a box (seccomp(2)).
//
//	filter.go   Filter: which calls are refused, as a BPF program; Install
//	calls.go    the calls
//	other.go    no filter but on Linux
//
// What a box may do is bounded by its namespaces and by having no capability. The filter
// takes away what reaches past them: kernel interfaces with a history of holes and no use to
// a tool (io_uring, BPF, keyrings, userfaultfd), kinds of sockets that no network namespace
// holds (vsock leads to a virtual machine's host), and typing into a terminal.
package seccomp
