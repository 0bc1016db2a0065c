//go:build !linux

package place

import (
	"fmt"

	"ebb/cmd/ebb/internal/box"
)

// Mounts are none but on Linux.
type Mounts []struct{}

// Of fails: there are boxes on Linux only.
func Of(box.Spec, string) (Mounts, error) {
	return nil, fmt.Errorf("%w: a box needs Linux", box.ErrNone)
}

// Check fails: there are boxes on Linux only.
func Check(string, []string) error { return fmt.Errorf("%w: a box needs Linux", box.ErrNone) }
