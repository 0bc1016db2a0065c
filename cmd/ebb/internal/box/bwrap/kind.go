//go:build linux

package bwrap

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"ebb/cmd/ebb/internal/box"
)

// Kind implements box.Kind.
type Kind struct {
	Program string // bubblewrap; "" = bwrap on the PATH
	Self    string // this binary, which has the command shim; "" = as the system says
}

// Defaults of box.Limits.
const (
	maxProcesses = 1024
	maxFiles     = 4096
	maxTemporary = 1 << 30
)

// Start implements box.Kind.
func (k Kind) Start(s box.Spec) (box.Running, error) {
	program, err := exec.LookPath(cmp.Or(k.Program, "bwrap"))
	if err != nil {
		return nil, fmt.Errorf("%w: bubblewrap is not installed: %w", box.ErrNone, err)
	}
	self := k.Self
	if self == "" {
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if s.User == nil && os.Geteuid() == 0 {
		return nil, fmt.Errorf("%w: what runs as root here would be root to the machine: a box needs a user of its own", box.ErrNone)
	}
	if s.Work, err = checkWork(s.Work); err != nil {
		return nil, err
	}
	s.Limits.Processes = cmp.Or(s.Limits.Processes, maxProcesses)
	s.Limits.Files = cmp.Or(s.Limits.Files, maxFiles)
	s.Limits.Temporary = cmp.Or(s.Limits.Temporary, maxTemporary)
	return start(program, self, s)
}

// system are places that a box sees anyway or must not replace: none of them, nor anything
// above them, is a work directory.
var system = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/lib", "/var/run"}

// checkWork follows links, so that what is checked is what is mounted. A home directory holds
// keys, and one that holds homes holds more of them.
func checkWork(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", box.ErrWork, err)
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", err
	}
	home, _ := os.UserHomeDir()
	if resolved, err := filepath.EvalSymlinks(home); err == nil {
		home = resolved
	}
	for _, place := range append([]string{home, "/home", "/tmp"}, system...) {
		if place != "" && within(place, real) {
			return "", fmt.Errorf("%w: %s is or holds %s", box.ErrWork, real, place)
		}
	}
	info, err := os.Stat(real)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", real)
	}
	return real, err
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
