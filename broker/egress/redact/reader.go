package redact

import (
	"errors"
	"io"
)

// Reader returns body with marks in place of secrets. Data that cannot become part of a secret is
// returned at once, so that an event stream is not delayed. At most the longest form of a secret is
// held back. Data that body returns together with an error is searched before the error is
// returned. hits is called at once with the number of new marks; it may be nil.
//
// If body returns no data and no error 100 times in a row, the error is io.ErrNoProgress.
func (r *Redactor) Reader(body io.ReadCloser, hits func(n int)) io.ReadCloser {
	if hits == nil {
		hits = func(int) {}
	}
	return &reader{src: body, scan: r.scan(), hits: hits}
}

// chunk is the size in bytes of the reads in the copy loops of net/http.
const chunk = 32 << 10

type reader struct {
	src  io.ReadCloser
	scan *scan
	hits func(int)
	in   []byte
	out  []byte // searched; from off on not returned yet
	off  int
	err  error // of src, returned when out is empty
}

// errClosed is returned by reads after Close.
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
		given, came := r.read(p)
		if given > 0 {
			return given, nil
		}
		if came > 0 {
			empty = 0
		}
	}
	n := copy(p, r.out[r.off:])
	r.off += n
	return n, nil
}

// inPlace is the room in bytes that p must have at least to be read into.
const inPlace = 4 << 10

// read reads once from the source, after the held data and into p if there is room, and searches
// the data there. given is the number of bytes in p that may be returned; the rest is in out. came
// is the number of bytes that were read. All other bytes of p are cleared.
func (r *reader) read(p []byte) (given, came int) {
	s, held := r.scan, len(r.scan.text)
	into := p
	if len(p) < held+inPlace {
		if len(r.in) < held+inPlace {
			r.in = make([]byte, held+chunk)
		}
		into = r.in
	}
	copy(into, s.text)
	came, r.err = r.src.Read(into[held:])
	if came == 0 && r.err == nil {
		return 0, 0
	}
	whole := errors.Is(r.err, io.EOF)
	before := s.marks
	s.text = into[:held+came]
	ready := s.look(whole)
	if len(s.spans) == 0 && ready-s.from <= len(p) {
		from := s.from
		s.forget(ready)
		if given = ready - from; &into[0] != &p[0] || from > 0 {
			copy(p, into[from:ready])
		}
	} else {
		r.out, r.off = s.release(r.out[:0], ready), 0
	}
	if r.err != nil && !whole {
		r.out = s.broken(r.out)
	}
	clear(into[min(given, held+came) : held+came])
	if n := s.marks - before; n > 0 {
		r.hits(n)
	}
	return given, came
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = errClosed
	}
	return r.src.Close()
}
