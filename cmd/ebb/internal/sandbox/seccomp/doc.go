// Package seccomp is the system call filter of a sandbox (seccomp(2)).
//
// Filter is the filter as a BPF program, and Install loads it. The allowed calls that only one
// architecture has are in a file for it.
//
// A sandbox is limited by its namespaces and by having no capabilities. The
// filter refuses calls that reach past them. It is an allow list, so that a
// call of a newer kernel is refused until it has been reviewed. Calls that
// tools need are allowed. Kernel interfaces with a history of vulnerabilities
// that no tool needs are refused: io_uring, BPF, keyrings, userfaultfd, mounts,
// namespaces. So are socket families that are not bound to a network namespace
// (vsock reaches the host of a virtual machine) and injecting input into a
// terminal. Every other call fails with ENOSYS.
package seccomp
