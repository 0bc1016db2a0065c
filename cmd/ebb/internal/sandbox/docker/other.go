//go:build !linux

package docker

import (
	"fmt"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// Kind implements sandbox.Kind. It works on Linux only.
type Kind struct{ Image, Program, Host, Self string }

// CheckImage fails: sandboxes exist on Linux only.
func CheckImage(string) error { return fmt.Errorf("%w: a Docker sandbox needs Linux", sandbox.ErrNone) }

// Start implements sandbox.Kind.
func (k Kind) Start(sandbox.Spec) (sandbox.Running, error) { return nil, CheckImage(k.Image) }
