// Package bwrap creates sandboxes with bubblewrap: every namespace is new,
// there are no capabilities, the only network is an empty loopback, the
// machine's programs are read-only, and the filter of package seccomp applies.
// The first process of a sandbox is the shim of this binary.
//
// Kind states its requirements of a machine. Ports below 1024 of hosts need no capability. Root starts
// a sandbox as another user.
//
// The order of a start: bubblewrap starts, creates the namespaces, reports them on a
// descriptor, mounts the files and becomes the shim. The shim reports that it waits.
// While bubblewrap mounts, this process calls Spec.Ready. When the shim has reported and
// Ready has succeeded, this process sends one byte through a pipe, and the shim starts the
// command. If the pipe is closed without that byte, the shim starts nothing.
package bwrap
