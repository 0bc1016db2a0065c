//go:build !linux

package first

import "github.com/ebb-broker/ebb/cmd/ebb/internal/box"

// Process does nothing: it exists on Linux only.
type Process struct{ box.Running }
