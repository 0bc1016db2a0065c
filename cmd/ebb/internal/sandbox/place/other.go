//go:build !linux

package place

import (
	"fmt"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// Mounts is empty: it exists on Linux only.
type Mounts []struct{}

// Of fails: sandboxes exist on Linux only.
func Of(sandbox.Spec, string) (Mounts, error) {
	return nil, fmt.Errorf("%w: a sandbox needs Linux", sandbox.ErrNone)
}

// Check fails: sandboxes exist on Linux only.
func Check(string, []string) error { return fmt.Errorf("%w: a sandbox needs Linux", sandbox.ErrNone) }
