//go:build !linux

package stdio

import (
	"errors"
	"os"
)

// IsTerminal reports whether f is a terminal.
func IsTerminal(*os.File) bool { return false }

// Streams are the streams of a sandbox. They exist on Linux only.
type Streams struct {
	Stdin, Stdout, Stderr *os.File
	TTY                   bool
}

// Owner is the user of the sandbox.
type Owner struct{ UID, GID int }

// Open fails: sandboxes exist on Linux only.
func Open(in, out, errs *os.File, owner *Owner) (*Streams, error) {
	return nil, errors.New("the streams of a sandbox need Linux")
}

// Join does nothing.
func (*Streams) Join() error { return nil }

// Resize does nothing.
func (*Streams) Resize() {}

// Close does nothing.
func (*Streams) Close() {}
