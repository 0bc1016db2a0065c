//go:build !linux

package cgroup

import (
	"errors"
	"os"
)

// Group is a group with nothing in it but a box.
type Group struct{}

// Make fails: there are cgroups on Linux only.
func Make(Limits) (*Group, []string, error) { return nil, nil, errors.New("cgroups are part of Linux") }

// Dir is nothing.
func (*Group) Dir() *os.File { return nil }

// Path is empty.
func (*Group) Path() string { return "" }

// Remove does nothing.
func Remove(string) error { return nil }

// Kill does nothing.
func (*Group) Kill() error { return nil }

// Close does nothing.
func (*Group) Close() error { return nil }
