//go:build !linux

package seccomp

import (
	"errors"
)

// Filter fails: seccomp exists on Linux only.
func Filter() ([]byte, error) { return nil, errors.New("seccomp exists on Linux only") }

// Install fails: seccomp exists on Linux only.
func Install() error { return errors.New("seccomp exists on Linux only") }
