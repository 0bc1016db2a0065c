// Package unixpeer attests a process by its connection to ebb's unix socket. The kernel
// of ebb's own machine identifies the process, so there is no document and no secret
// that could be stolen. It needs Linux 6.5 or newer.
//
// The Attestor reads the facts about the process from the kernel: its cgroup, its
// namespaces, the init process of its PID namespace, and the SHA-256 of its program. It
// finds the container in the path of the cgroup and asks the container runtime about it:
// Docker or Podman over HTTP, containerd over gRPC. Watch waits until the process or its
// cgroup has ended. On systems other than Linux every judgement fails.
//
// # Guarantees
//
// SO_PEERCRED and SO_PEERPIDFD (unix(7)) are fixed when a process connects. The pidfd
// refers to that process even after its PID has been reused. The Attestor checks with
// the pidfd that the process is alive, reads /proc, and checks again. So no fact that
// it read belongs to a later process with the same PID.
//
// The connection does not prove which process writes to it. A connected descriptor can
// be passed to another process or inherited over a fork or an exec, and still identifies
// the process that connected. A process that gives its connection away gives its
// identity away, as with any secret. The key that the pipeline verifies with each
// request must still be the sandbox's.
//
// # One process, one key
//
// The evidence is the process. Identity.ReplayID consists of its PID and start time, and
// the pipeline binds it to the first key that uses it. Many sandboxes behind one relay
// process look like that process; the binding lets only one of them use it. The
// selectors that the runner registered keep a process out of another process's task.
//
// # Limits
//
//   - uid and gid are as ebb's user namespace sees them: root in a container with
//     user namespaces is not 0, and an unmapped id is 65534. Many sandboxes can have
//     the same uid, so it does not identify a sandbox.
//   - The kernel reuses the numbers of processes and namespaces. A pid identifies a
//     process only together with start_time. cgroup_id is not reused until a reboot.
//   - A process that can write to its own cgroup can make cgroups below it with names
//     of its choice. Therefore a path with more than one container is treated as having
//     none. With Nested it has the outermost, which only the machine's own runtime can
//     have made.
//   - A privileged container, or one that can write to the machine's cgroups, can move
//     itself to another cgroup. container_id proves nothing about it.
//   - exe_sha256 is the digest of a file of the container. The container can start that
//     file and then run other code, so the digest detects mistakes but not attacks.
//   - The evidence has no expiry. The reattest setting of the attestor limits how long a
//     sandbox may continue without connecting again.
//   - Selectors leave out a network namespace, cgroup or container that the process
//     shares with ebb itself, because it does not identify a sandbox.
package unixpeer
