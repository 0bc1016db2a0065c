// Package box is the contract of what runs a command apart from its machine: the compute
// sandbox of `ebb run`. Sub-folders are its kinds.
//
//	box.go        Spec, Kind, Running: what runs, what makes a box, one that runs
//	bootstrap.go  how tools find the way out of a box
//	direct.go     hosts that programs reach which know of no proxy
//	layout.go     where things are in a box
//	socket.go     a directory with a socket in it, checked before a box gets it
//	status.go     what the first process of a box says to who made it
//	code.go       what an exit code says of an end
//	etc.go        a box's own /etc
//
// A box has a home and temporary directories of its own, the machine's programs or
// those of an image to read, one work directory to write to, and no network: sockets that the runner puts into it are
// the only ways out. Its kinds are bwrap and docker, and none, which is no box at all.
//
//	autorun/   files of a work directory that make programs run by themselves
//	boxtest/   what tests of kinds have in common
//	bwrap/     bubblewrap, with the shim of this binary as the first process
//	cgroup/    bounds of memory and processor time, and one word that ends a box
//	docker/    a container of a Docker daemon, with the same shim
//	first/     the first process of a box, as its runner holds it
//	handover/  what such a shim is told, and its descriptors
//	none/      a plain child process
//	place/     which places of the machine a box may have
//	seccomp/   the filter of system calls of a box
//	watchdog/  ends a box whose runner is gone, where the kernel does not
package box
