//go:build !linux

package doctest

import "os/exec"

func start(prepare func(*exec.Cmd), env []string, args ...string) (*exec.Cmd, bool, error) {
	cmd, err := startShared(prepare, env, args...)
	return cmd, false, err
}

// Inside does nothing: only Linux has network namespaces.
func Inside() {}
