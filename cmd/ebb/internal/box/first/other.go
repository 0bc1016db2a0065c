//go:build !linux

package first

import "ebb/cmd/ebb/internal/box"

// Process is held on Linux only.
type Process struct{ box.Running }
