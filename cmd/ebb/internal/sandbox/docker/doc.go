// Package docker creates sandboxes with a Docker daemon: a container of an image, without
// a network, capabilities or root, read-only except for the work directory and tmpfs. Its
// first process is the shim of this binary, mounted into it.
//
// A start finds the image, checks its name and volumes, and creates the container with the files and
// directories that are mounted into it. The program docker runs without any configuration but the
// daemon's address. A watchdog kills the container if the runner ends. Sandboxes of runs that were
// killed are removed later.
//
// ebb does not trust the daemon to have created the container as requested. The shim
// connects to a socket of the runner, and the runner checks with the kernel: its process,
// user, capabilities, namespaces and network, the mounted files, and the writable paths.
// Only then it sends the command and the streams over this socket, never through the
// daemon. So the Docker API shows neither the command nor the environment.
package docker
