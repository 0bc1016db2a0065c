//go:build !linux

package bwrap

import (
	"fmt"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// Kind implements sandbox.Kind. It works on Linux only.
type Kind struct{ Program, Self string }

// Start implements sandbox.Kind.
func (Kind) Start(sandbox.Spec) (sandbox.Running, error) {
	return nil, fmt.Errorf("%w: bubblewrap needs Linux", sandbox.ErrNone)
}
