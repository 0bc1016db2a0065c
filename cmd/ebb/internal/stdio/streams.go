//go:build linux

package stdio

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Streams are those of a box. What is typed or read here goes to Stdin after Join; what is
// written to Stdout and Stderr is passed on from the beginning.
type Streams struct {
	// The box's ends; nil = none.
	Stdin, Stdout, Stderr *os.File
	TTY                   bool // Stdin is a terminal, and only the box's

	in    *os.File // the person's
	feed  *os.File // where in goes when it is no terminal
	pair  *pair    // nil = no terminal
	inner []*os.File
	out   outputs
}

// Owner is who may open the streams again by the paths that the system has for them.
type Owner struct{ UID, GID int }

// Open makes streams in the place of a person's; nil = none there either. A terminal becomes
// one of the box's own, of its size; everything else a pipe. owner is who the box is; nil = who
// this process is.
func Open(in, out, errs *os.File, owner *Owner) (_ *Streams, err error) {
	s := &Streams{in: in}
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("the streams of the box: %w", err)
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

// output is the box's end of a stream that leads to one of the person's.
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

// Join connects the person's terminal with the sandbox's and starts to copy input, once the sandbox
// has its ends of the streams: they are closed here. The terminal's output is copied from then on, and
// not before: a terminal that is not raw yet would end each line with a second carriage return.
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
			_, _ = io.Copy(s.feed, s.in) // until nobody reads, or nothing is left
			_ = s.feed.Close()
		}()
	}
	return nil
}

// Resize gives the box's terminal the size of the person's, if it has one.
func (s *Streams) Resize() {
	if s.pair != nil {
		s.pair.resize()
	}
}

// Close passes on what is left and gives the person's terminal back as it was. The box is over
// by then: who has an end of it still, outside of the box, is not waited for.
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
