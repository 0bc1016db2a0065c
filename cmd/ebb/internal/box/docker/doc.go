// Package docker makes boxes with the daemon of Docker: a container of an image, without a network,
// a capability or root, read-only but for the work directory and what is in memory. Its first
// process is the shim of this binary, mounted into it.
//
//	kind.go       Kind, and what it needs of a daemon
//	client.go     the program docker, told nothing by anybody's configuration but which daemon
//	image.go      which image: a name that is no option, what it declares
//	args.go       what docker is told
//	furnish.go    what the box finds of this run, by paths
//	start.go      start: the container, the watchdog, the order, the byte that lets go
//	call.go       the shim's call, and who that is
//	lend.go       descriptors for the shim
//	verify.go     what the kernel says of the first process before it is let go
//	leftovers.go  boxes of runs that were killed
//	other.go      no box but on Linux
//
// A daemon is not believed what it has made. The shim calls a socket of the runner, and the kernel says who that
// is: its process, user, capabilities, namespaces and network, which files are mounted where, and
// what can be written to. Only then it
// is told the command, and gets the streams, by that socket and by nothing of the daemon's. What
// Docker's own interface shows to others has neither command nor environment.
package docker
