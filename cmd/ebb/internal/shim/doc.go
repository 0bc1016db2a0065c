// Package shim is the first process of a sandbox. It starts the command, forwards
// signals, reaps the processes that the command leaves behind, and forwards ports of the
// sandbox's loopback to the sockets that lead outside.
//
//	shim.go      Run: from the start of the command to its end
//	parse.go     Parse: its command line, written by the kind of sandbox
//	order.go     the same over a socket, if the sandbox inherits no descriptors
//	ports.go     forwards a port of loopback to a socket
//	confine.go   limits, and protection of the shim from inspection
//	other.go     systems other than Linux: no shim
//
// The shim has no secret: a process that takes it over gains nothing that is not in
// the sandbox anyway.
package shim
