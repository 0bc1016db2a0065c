// Package docker creates sandboxes with a Docker daemon: a container of an image, without
// a network, capabilities or root, read-only except for the work directory and tmpfs. Its
// first process is the shim of this binary, mounted into it.
//
//	kind.go       Kind, and its requirements of a daemon
//	client.go     the program docker, without any configuration but the daemon's address
//	image.go      finds the image and checks its name and volumes
//	args.go       docker's arguments
//	furnish.go    the files and directories mounted into the sandbox
//	start.go      start: the container, the watchdog, the order, the release
//	call.go       accepts the shim's connection and identifies its process
//	lend.go       descriptors for the shim
//	verify.go     checks the first process with the kernel before it is released
//	leftovers.go  sandboxes of runs that were killed
//	other.go      systems other than Linux: no sandbox
//
// ebb does not trust the daemon to have created the container as requested. The shim
// connects to a socket of the runner, and the runner checks with the kernel: its process,
// user, capabilities, namespaces and network, the mounted files, and the writable paths.
// Only then it sends the command and the streams over this socket, never through the
// daemon. So the Docker API shows neither the command nor the environment.
package docker
