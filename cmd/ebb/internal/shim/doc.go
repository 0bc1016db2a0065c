// Package shim is the first process of a sandbox. It starts the command, forwards
// signals, reaps the processes that the command leaves behind, and forwards ports of the
// sandbox's loopback to the sockets that lead outside.
//
// Parse reads its command line, which the kind of sandbox writes. If the sandbox inherits no
// descriptors, the same order arrives over a socket. Run sets limits, protects the shim from
// inspection, and lasts from the start of the command to its end. If the sandbox inherits
// descriptors, init runs the shim, before the initialization of ebb's other packages.
//
// The shim has no secret: a process that takes it over gains nothing that is not in
// the sandbox anyway.
package shim
