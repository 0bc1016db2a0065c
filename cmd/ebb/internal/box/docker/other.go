//go:build !linux

package docker

import (
	"fmt"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
)

// Kind implements box.Kind. It works on Linux only.
type Kind struct{ Image, Program, Host, Self string }

// CheckImage fails: sandboxes exist on Linux only.
func CheckImage(string) error { return fmt.Errorf("%w: a Docker sandbox needs Linux", box.ErrNone) }

// Start implements box.Kind.
func (k Kind) Start(box.Spec) (box.Running, error) { return nil, CheckImage(k.Image) }
