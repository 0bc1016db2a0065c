// Package shim is the first process of a box. It starts the command, passes signals on,
// buries what the command leaves behind, and carries the ports of the box's loopback to the
// sockets that lead out.
//
//	shim.go      Run: from the start of the command to its end
//	parse.go     Parse: its command line, which the kind of box writes
//	order.go     the same over a socket, where a box inherits nothing
//	ports.go     a port of loopback to a socket, byte for byte
//	confine.go   limits, and nobody looks into the shim
//	other.go     no shim but on Linux
//
// It holds nothing: who takes it over has what the box has anyway.
package shim
