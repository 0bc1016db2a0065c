// Package bwrap creates sandboxes with bubblewrap: every namespace is new,
// there are no capabilities, the only network is an empty loopback, the
// machine's programs are read-only, and the filter of package seccomp applies.
// The first process of a sandbox is the shim of this binary.
//
//	kind.go     Kind, and its requirements of a machine
//	start.go    start: descriptors, the sandbox's identity, the shim's reports
//	args.go     bubblewrap's options
//	lowports.go ports below 1024 of hosts, without a capability
//	stage.go    root starts a sandbox as another user
//	other.go    systems other than Linux: no sandbox
//
// The order of a start: bubblewrap starts, creates the namespaces, reports them on a
// descriptor, mounts the files and becomes the shim. The shim reports that it waits.
// Spec.Ready is called. Only then the shim is sent the byte that lets it start the
// command. If the pipe is closed without that byte, the shim starts nothing.
package bwrap
