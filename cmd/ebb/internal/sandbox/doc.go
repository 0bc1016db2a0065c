// Package sandbox defines the interface by which `ebb run` starts a command in a sandbox
// that is isolated from the machine. Sub-folders are the kinds of sandboxes.
//
// Spec is the command, Kind creates a sandbox for it, and Running is the running sandbox. A
// sandbox has an /etc of its own, and variables by which tools find the egress proxy. Programs that
// do not support a proxy find some hosts at the sandbox's loopback. The directory of a socket is
// checked before a sandbox gets the socket. The first process reports its state by messages.
//
// A sandbox has its own home and temporary directories, the programs of the machine or
// of an image read-only, one writable work directory, and no network. It reaches the
// outside only through sockets that the runner mounts into it. The kinds are bwrap,
// docker, and none, which does not isolate the command.
//
//	autorun/   files of a work directory that make programs run without being asked
//	sandboxtest/   helpers shared by the tests of kinds
//	bwrap/     bubblewrap, with the shim of this binary as the first process
//	cgroup/    limits of memory and processor time, and killing all processes at once
//	docker/    a container of a Docker daemon, with the same shim
//	first/     the first process of a sandbox, as its runner controls it
//	handover/  passes the command and descriptors to the first process of a container
//	none/      a plain child process
//	place/     the paths of the machine that a sandbox may have
//	seccomp/   the system call filter of a sandbox
//	watchdog/  kills a sandbox whose runner has ended, where the kernel does not
package sandbox
