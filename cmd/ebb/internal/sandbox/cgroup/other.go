//go:build !linux

package cgroup

import (
	"errors"
	"os"
)

// Group is a cgroup for the processes of one sandbox.
type Group struct{}

// Make fails: cgroups exist on Linux only.
func Make(Limits) (*Group, []string, error) { return nil, nil, errors.New("cgroups need Linux") }

// Dir returns nil.
func (*Group) Dir() *os.File { return nil }

// Path is empty.
func (*Group) Path() string { return "" }

// Remove does nothing.
func Remove(string) error { return nil }

// Close does nothing.
func (*Group) Close() error { return nil }
