//go:build !linux

package first

import "github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"

// Process does nothing: it exists on Linux only.
type Process struct{ sandbox.Running }
