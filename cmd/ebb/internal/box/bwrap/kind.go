//go:build linux

package bwrap

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/place"
)

// Kind implements box.Kind.
type Kind struct {
	Program string // path of bubblewrap; "" = bwrap on the PATH
	Self    string // path of this binary, which has the command shim; "" = os.Executable
}

// Start implements box.Kind.
func (k Kind) Start(s box.Spec) (box.Running, error) {
	program, err := exec.LookPath(cmp.Or(k.Program, "bwrap"))
	if err != nil {
		return nil, fmt.Errorf("%w: bubblewrap is not installed: %w", box.ErrNone, err)
	}
	if s.User == nil && os.Geteuid() == 0 {
		return nil, fmt.Errorf("%w: a sandbox started by root needs a user of its own, because its root would be the machine's root", box.ErrNone)
	}
	m, err := place.Of(s, k.Self)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s.Limits = s.Limits.OrDefault()
	return start(program, m, s)
}
