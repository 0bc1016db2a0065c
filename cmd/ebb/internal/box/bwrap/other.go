//go:build !linux

package bwrap

import (
	"fmt"

	"ebb/cmd/ebb/internal/box"
)

// Kind implements box.Kind: nowhere but on Linux.
type Kind struct{ Program, Self string }

// Start implements box.Kind.
func (Kind) Start(box.Spec) (box.Running, error) {
	return nil, fmt.Errorf("%w: bubblewrap needs Linux", box.ErrNone)
}
