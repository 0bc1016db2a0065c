//go:build !linux

package seccomp

import "errors"

// Filter fails: there is no seccomp here.
func Filter() ([]byte, error) { return nil, errors.New("seccomp is part of Linux") }
