//go:build !linux

package autorun

import (
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// Guard does nothing: sandboxes exist on Linux only.
type Guard struct{}

// Finding is a file that makes programs run.
type Finding struct{ Path, Aside, Reason string }

// Begin does nothing.
func Begin(string, bool, []string) (*Guard, error) { return &Guard{}, nil }

// Resume does nothing.
func Resume(string) (*Guard, error) { return &Guard{}, nil }

// Places returns no mounts.
func (*Guard) Places() []sandbox.Fixed { return nil }

// End returns no findings.
func (*Guard) End() ([]Finding, error) { return nil, nil }

// Save does nothing.
func (*Guard) Save(string) error { return nil }

// Close does nothing.
func (*Guard) Close() error { return nil }
