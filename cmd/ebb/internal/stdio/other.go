//go:build !linux

package stdio

import (
	"errors"
	"os"
)

// IsTerminal reports whether f is a terminal.
func IsTerminal(*os.File) bool { return false }

// Streams are a box's streams: nowhere but on Linux.
type Streams struct {
	Stdin, Stdout, Stderr *os.File
	TTY                   bool
}

// Owner is who may open the streams again.
type Owner struct{ UID, GID int }

// Open fails: it needs Linux.
func Open(in, out, errs *os.File, owner *Owner) (*Streams, error) {
	return nil, errors.New("the streams of a box need Linux")
}

// Join does nothing.
func (*Streams) Join() error { return nil }

// Resize does nothing.
func (*Streams) Resize() {}

// Close does nothing.
func (*Streams) Close() {}
