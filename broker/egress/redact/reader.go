package redact

import (
	"errors"
	"io"
)

// Reader is r with marks in place of secrets. It gives on at once what cannot become
// part of one, so that an event stream is not delayed, and holds back no more than the
// longest form of a secret. What r returns beside an error is looked at before the error
// is. hits is told of each mark, at once; nil = nobody is.
//
// A reader that reads nothing without an error many times over is one (io.ErrNoProgress).
func (r *Redactor) Reader(body io.ReadCloser, hits func(n int)) io.ReadCloser {
	if hits == nil {
		hits = func(int) {}
	}
	return &reader{src: body, scan: scan{a: r.a}, hits: hits}
}

// chunk is as much as the copy loops of net/http read at one time.
const chunk = 32 << 10

type reader struct {
	src  io.ReadCloser
	scan scan
	hits func(int)
	in   []byte
	out  []byte // looked at, from off on not given on yet
	off  int
	err  error // of src, for when out is empty
}

// errClosed is what reading a closed one gets.
var errClosed = errors.New("redact: read after close")

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for empty := 0; r.off == len(r.out); {
		if r.err != nil {
			return 0, r.err
		}
		if empty++; empty > 100 {
			r.err = io.ErrNoProgress
			return 0, r.err
		}
		if len(r.scan.spans) == 0 && len(p) >= len(r.scan.held)+inPlace {
			n, came := r.into(p)
			if n > 0 {
				return n, nil
			}
			if came > 0 {
				empty = 0
			}
			continue
		}
		if r.in == nil {
			r.in = make([]byte, chunk)
		}
		n, err := r.src.Read(r.in)
		if r.feed(r.in[:n], err); n > 0 {
			empty = 0
		}
	}
	n := copy(p, r.out[r.off:])
	r.off += n
	return n, nil
}

// inPlace is for how many bytes p has room at least that is read into, and looked at where it
// is, as long as there is nothing to mark.
const inPlace = 4 << 10

// into reads once from the source into p, behind what is held. given is how much of p can be
// given on; came is how much came. When something is to be marked, all goes through out. Nothing
// else stays in p.
func (r *reader) into(p []byte) (given, came int) {
	at := copy(p, r.scan.held)
	came, err := r.src.Read(p[at:])
	text := p[:at+came]
	given, secret := r.scan.hold(text)
	switch {
	case secret:
		r.feed(text[at:], err)
	case errors.Is(err, io.EOF):
		given, r.err = len(text), err
	default:
		r.err = err
	}
	clear(text[given:])
	return given, came
}

// feed looks at what came, with what the source said beside it, and puts into out what can
// be given on.
func (r *reader) feed(came []byte, err error) {
	before := r.scan.marks
	r.out, r.off = r.scan.feed(r.out[:0], came), 0
	if err != nil {
		r.err = err
		if errors.Is(err, io.EOF) {
			r.out = r.scan.end(r.out)
		} else {
			r.out = r.scan.broken(r.out)
		}
	}
	if n := r.scan.marks - before; n > 0 {
		r.hits(n)
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = errClosed
	}
	return r.src.Close()
}
