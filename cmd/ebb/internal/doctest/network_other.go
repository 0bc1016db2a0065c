//go:build !linux

package doctest

import (
	"net"
	"os/exec"
)

func start(prepare func(*exec.Cmd), env []string, args ...string) (*exec.Cmd, bool, error) {
	cmd, err := startShared(prepare, env, args...)
	return cmd, false, err
}

// Inside does nothing: only Linux has network namespaces.
func Inside() {}

// Listen listens on a TCP address in the network of the page.
func (s *Shell) Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }
