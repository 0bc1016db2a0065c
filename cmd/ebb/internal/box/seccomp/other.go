//go:build !linux

package seccomp

import "errors"

// Filter fails: there is no seccomp here.
func Filter() ([]byte, error) { return nil, errors.New("seccomp is part of Linux") }

// Install fails: there is no seccomp here.
func Install() error { return errors.New("seccomp is part of Linux") }
