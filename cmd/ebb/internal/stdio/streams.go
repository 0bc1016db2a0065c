//go:build linux

package stdio

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Streams are the streams of a sandbox. Input of the user is copied to Stdin
// after Join. Output on Stdout and Stderr is copied from the start.
type Streams struct {
	// The sandbox's ends; nil = none.
	Stdin, Stdout, Stderr *os.File
	TTY                   bool // Stdin is a terminal of the sandbox alone

	in    *os.File // the user's input
	feed  *os.File // copy of in if it is not a terminal
	pair  *pair    // nil = no stream is a terminal
	inner []*os.File
	out   outputs
}

// Owner is the user of the sandbox. It becomes the owner of the streams, so
// that the sandbox can open them again through /dev/stdin and the like.
type Owner struct{ UID, GID int }

// Open creates streams in place of the user's; nil stays nil. A terminal is
// replaced by a new one of the same size, every other stream by a pipe. owner
// is the user of the sandbox; nil = the user of this process.
func Open(in, out, errs *os.File, owner *Owner) (_ *Streams, err error) {
	s := &Streams{in: in}
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("create the streams of the sandbox: %w", err)
		}
	}()
	switch {
	case in == nil:
	case IsTerminal(in):
		if s.pair, err = openPair(in, in); err != nil {
			return nil, err
		}
		s.Stdin, s.TTY = s.pair.inner, true
	default:
		if s.Stdin, s.feed, err = os.Pipe(); err != nil {
			return nil, err
		}
		s.inner = append(s.inner, s.Stdin)
	}
	if s.Stdout, err = s.output(out); err != nil {
		return nil, err
	}
	if s.Stderr = s.Stdout; !same(out, errs) {
		if s.Stderr, err = s.output(errs); err != nil {
			return nil, err
		}
	}
	if s.pair != nil {
		s.inner = append(s.inner, s.pair.inner)
	}
	return s, s.chown(owner)
}

// output returns the sandbox's end of a stream whose output is copied to one of
// the user's.
func (s *Streams) output(to *os.File) (*os.File, error) {
	if to == nil {
		return nil, nil
	}
	if IsTerminal(to) {
		if s.pair == nil {
			p, err := openPair(nil, to)
			if err != nil {
				return nil, err
			}
			s.pair = p
		}
		if same(s.pair.out, to) {
			return s.pair.inner, nil
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.inner = append(s.inner, w)
	s.out.pass(to, r)
	return w, nil
}

func same(a, b *os.File) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

func (s *Streams) chown(owner *Owner) error {
	if owner == nil {
		return nil
	}
	var errs []error
	for _, f := range s.inner {
		errs = append(errs, f.Chown(owner.UID, owner.GID))
	}
	return errors.Join(errs...)
}

// Join starts copying input and connects the user's terminal with the
// sandbox's. The sandbox must have its ends of the streams, which Join closes
// here. The terminal's output is copied only from now on: before it is raw,
// each line would end with a second carriage return.
func (s *Streams) Join() error {
	s.closeInner()
	if s.TTY {
		if err := s.pair.join(); err != nil {
			return err
		}
	}
	if s.pair != nil {
		s.out.pass(s.pair.out, s.pair.outer)
	}
	if s.feed != nil {
		go func() {
			_, _ = io.Copy(s.feed, s.in) // until the reader has closed it, or the input ends
			_ = s.feed.Close()
		}()
	}
	return nil
}

// Resize sets the size of the sandbox's terminal, if any, to that of the
// user's.
func (s *Streams) Resize() {
	if s.pair != nil {
		s.pair.resize()
	}
}

// Close copies the remaining output and restores the user's terminal. The
// sandbox must have ended. Close does not wait for processes outside of the
// sandbox that still have a stream open.
func (s *Streams) Close() {
	s.closeInner()
	s.out.end()
	if s.pair != nil {
		s.pair.close()
	}
}

func (s *Streams) closeInner() {
	for _, f := range s.inner {
		_ = f.Close()
	}
	s.inner = nil
}
