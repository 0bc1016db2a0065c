// Package unixpeer attests by the connection itself: the process at the other end
// of ebb's unix socket, as the kernel of ebb's own machine knows it. There is no
// document and no secret that could be stolen. Linux 6.5 or newer.
//
//	config.go     Config, and Decode for the configuration file
//	unixpeer.go   Attestor: look, then say who it is
//	register.go   CheckRegistration: which selectors name one sandbox
//	cgroup.go     /proc/PID/cgroup, and the container in its path
//	stat.go       /proc/PID/stat, links of namespaces, mounts
//	look_linux.go what the kernel says of a process; look_other.go: nothing
//	first_linux.go the first process of a process namespace, whose end is that of all
//	exe.go        the digest of the program
//	runtime.go    what a container runtime says of a container
//	docker.go     Docker or Podman, over HTTP
//	containerd.go containerd, over gRPC: also whether the process is in the container
//	containerd_image.go the digest of the image that a container was made from
//	watch.go      Watch: which process or cgroup to look at
//	watch_linux.go until it is gone; watch_other.go: nothing
//
// # What it proves
//
// SO_PEERCRED and SO_PEERPIDFD (unix(7)) are fixed when a process connects. The
// pidfd names that very process, whatever becomes of its number: everything is
// read from /proc between two looks at the pidfd that find it alive, so nothing
// that is read is of a successor.
//
// It does not prove who writes: a connected descriptor that was passed on, or kept
// over a fork or an exec, speaks for whoever connected. A process that gives its
// connection away has given its identity away, as with any secret; the key that
// the pipeline proves with each request still has to be the sandbox's one.
//
// # One piece of evidence
//
// The evidence is the process. Identity.ReplayID names it by its start, and the
// pipeline gives it to the first key that uses it: one process, one key. That keeps
// a relay, through which many sandboxes would look like one, from being used by
// more than one of them. What keeps a process out of another's task are the
// selectors that the runner registered; CheckRegistration refuses those that more
// than one sandbox would fit.
//
// # Traps
//
//   - uid and gid are as ebb's user namespace sees them: root in a container with
//     user namespaces is not 0, and what is not mapped is 65534. Many sandboxes
//     have the same: they name no sandbox.
//   - Numbers of processes and of namespaces are used again after their end: pid
//     goes with start_time, and a task must end with its sandbox. cgroup_id is not
//     used again until the machine is.
//   - Whoever can write to its own cgroup makes cgroups below it with names of its
//     choice. A path with more than one container in it has none, unless Nested,
//     which takes the outermost: only the machine's own runtime could make that.
//   - A privileged container, or one with the machine's cgroups writable, can move
//     itself: container_id is then worth nothing.
//   - The digest of the program is that of the container's file, which the container
//     can run and then not use: it tells mistakes, not attacks.
//   - The evidence says nothing of its own end. How long a sandbox may go on without
//     showing itself over the socket again is the attestor's reattest.
//   - What a process shares with ebb itself, network namespace, cgroup or container,
//     is no fact of a sandbox and is left out.
package unixpeer
