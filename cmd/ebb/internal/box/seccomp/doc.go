// Package seccomp is the filter of system calls of a box (seccomp(2)).
//
//	filter.go   Filter: which calls are refused, as a BPF program; Install
//	calls.go    calls that are refused, and the arguments that others may have
//	allowed.go  calls that are allowed on every machine; allowed_amd64.go, allowed_arm64.go: on that one;
//	            allowed_other.go: none
//	other.go    no filter but on Linux
//
// What a box may do is bounded by its namespaces and by having no capability. The filter takes away what reaches past
// them. It is an allow list, so that a call of a newer kernel is not there until somebody has looked at it: what tools
// need is allowed, kernel interfaces with a history of holes and no use to a tool are refused (io_uring, BPF, keyrings,
// userfaultfd, mounts, namespaces), as are kinds of sockets that no network namespace holds (vsock leads to a virtual
// machine's host) and typing into a terminal. All else does not exist (ENOSYS).
package seccomp
