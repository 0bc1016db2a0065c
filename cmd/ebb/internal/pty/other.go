//go:build !linux

package pty

import (
	"errors"
	"os"
)

// Is reports whether f is a terminal.
func Is(*os.File) bool { return false }

// Pair is a pseudo-terminal: nowhere but on Linux.
type Pair struct{ Inner *os.File }

// Open fails: it needs Linux.
func Open(in, out *os.File) (*Pair, error) {
	return nil, errors.New("a terminal for a box needs Linux")
}

// Join does nothing.
func (*Pair) Join() error { return nil }

// Resize does nothing.
func (*Pair) Resize() {}

// Close does nothing.
func (*Pair) Close() {}
