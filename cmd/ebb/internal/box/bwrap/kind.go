//go:build linux

package bwrap

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/place"
)

// Kind implements box.Kind.
type Kind struct {
	Program string // bubblewrap; "" = bwrap on the PATH
	Self    string // this binary, which has the command shim; "" = as the system says
}

// Start implements box.Kind.
func (k Kind) Start(s box.Spec) (box.Running, error) {
	program, err := exec.LookPath(cmp.Or(k.Program, "bwrap"))
	if err != nil {
		return nil, fmt.Errorf("%w: bubblewrap is not installed: %w", box.ErrNone, err)
	}
	if s.User == nil && os.Geteuid() == 0 {
		return nil, fmt.Errorf("%w: what runs as root here would be root to the machine: a box needs a user of its own", box.ErrNone)
	}
	m, err := place.Of(s, k.Self)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s.Limits = s.Limits.OrDefault()
	return start(program, m, s)
}
