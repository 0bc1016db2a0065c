//go:build !linux

package bwrap

import (
	"fmt"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
)

// Kind implements box.Kind. It works on Linux only.
type Kind struct{ Program, Self string }

// Start implements box.Kind.
func (Kind) Start(box.Spec) (box.Running, error) {
	return nil, fmt.Errorf("%w: bubblewrap needs Linux", box.ErrNone)
}
