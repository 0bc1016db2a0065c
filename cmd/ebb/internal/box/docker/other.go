//go:build !linux

package docker

import (
	"fmt"

	"ebb/cmd/ebb/internal/box"
)

// Kind implements box.Kind: nowhere but on Linux.
type Kind struct{ Image, Program, Host, Self string }

// CheckImage fails: there are boxes on Linux only.
func CheckImage(string) error { return fmt.Errorf("%w: a box of Docker's needs Linux", box.ErrNone) }

// Start implements box.Kind.
func (k Kind) Start(box.Spec) (box.Running, error) { return nil, CheckImage(k.Image) }
