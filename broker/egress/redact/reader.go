package redact

import (
	"encoding/binary"
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

// Frames returns the frames of a WebSocket server (RFC 6455 section 5.2), with an asterisk in place
// of each byte of a secret: the lengths of frames stay, and text stays valid text. A secret is
// found in the payload of a message, however many frames carry it and whichever control frames are
// between them. Data that may become a secret is held back, to the end of its message at most. hits
// is called for each secret; it may be nil.
//
// Masked frames, frames with extensions, and frames out of order cannot be searched: the stream
// ends there with an error. It also ends with an error in the middle of a message, and when more
// than maxBetween bytes of headers and control frames arrive while data is held back.
func (r *Redactor) Frames(src io.Reader, hits func(n int)) io.Reader {
	if hits == nil {
		hits = func(int) {}
	}
	return &frames{src: src, hits: hits, message: text{scan: r.scan()}, aside: text{scan: r.scan()}}
}

// ErrFrame is returned for a frame that a server without extensions must not send.
var ErrFrame = errors.New("redact: the data is not a frame of a WebSocket server without extensions")

const (
	frameFinal   = 0x80 // bits of the first byte
	frameRSV     = 0x70 // for extensions
	frameOpcode  = 0x0f
	frameControl = 0x08
	frameMasked  = 0x80 // bit of the second byte
	maxControl   = 125
)

const ( // opcodes
	opContinuation = 0x0
	opBinary       = 0x2 // the last opcode for data
	opPong         = 0xA // the last opcode for control
)

// maxBetween limits the headers and control frames that are held back, in bytes. Without it a
// server could send pings without end between the bytes of a possible secret.
const maxBetween = 64 << 10

type frames struct {
	src  io.Reader
	hits func(int)

	in     []byte
	out    []byte
	data   []bool // of out: whether a byte is payload of a message
	given  int    // bytes of out that were returned
	ready  int    // bytes of out that may be returned
	passed uint64 // bytes of messages before ready, in total
	err    error

	head    []byte // bytes of a header that is not complete
	size    uint64 // payload length of the frame
	left    uint64 // payload bytes that are missing
	final   bool
	control bool
	open    bool // a message has begun and not ended
	message text
	aside   text // of a control frame
}

// text is the payload of messages, or of one control frame.
type text struct {
	*scan
	n    uint64 // bytes in total
	held int    // bytes that may become a secret
	to   uint64 // end of the last overwritten part
}

// begin drops the text.
func (t *text) begin() {
	t.text, t.from, t.held, t.to = t.text[:0], 0, 0, t.n
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if f.in == nil {
		f.in = make([]byte, chunk)
	}
	if f.given > len(f.out)/2 {
		f.out, f.data = append(f.out[:0], f.out[f.given:]...), append(f.data[:0], f.data[f.given:]...)
		f.given, f.ready = 0, f.ready-f.given
	}
	for empty := 0; f.ready == f.given && f.err == nil; empty++ {
		n, err := f.src.Read(f.in)
		if n > 0 {
			empty = 0
		} else if empty > 100 {
			err = io.ErrNoProgress
		}
		if bad := f.feed(f.in[:n]); bad != nil {
			err = bad
		} else if errors.Is(err, io.EOF) && (f.open || f.left > 0 || len(f.head) > 0) {
			err = io.ErrUnexpectedEOF
		}
		f.err = err
	}
	if f.ready == f.given {
		return 0, f.err
	}
	n := copy(p, f.out[f.given:f.ready])
	f.given += n
	return n, nil
}

// feed reads received data.
func (f *frames) feed(p []byte) error {
	for len(p) > 0 {
		if f.left == 0 {
			whole, err := f.header(p[0])
			if err != nil {
				return err
			}
			p = p[1:]
			if whole && f.left == 0 {
				f.over()
			}
			continue
		}
		n := int(min(f.left, uint64(len(p))))
		f.payload(p[:n])
		if f.left -= uint64(n); f.left == 0 {
			f.over()
		}
		p = p[n:]
	}
	return f.release()
}

// header reads one byte of a header; whole reports that it was the last.
func (f *frames) header(b byte) (whole bool, err error) {
	f.head = append(f.head, b)
	f.out, f.data = append(f.out, b), append(f.data, false)
	h := f.head
	if h[0]&frameRSV != 0 || len(h) > 1 && h[1]&frameMasked != 0 {
		return false, ErrFrame
	}
	if len(h) < 2 {
		return false, nil
	}
	more := 0 // bytes of the extended length
	switch h[1] {
	case 126:
		more = 2
	case 127:
		more = 8
	}
	if len(h) < 2+more {
		return false, nil
	}
	switch more {
	case 0:
		f.size = uint64(h[1])
	case 2:
		f.size = uint64(binary.BigEndian.Uint16(h[2:]))
	default:
		f.size = binary.BigEndian.Uint64(h[2:])
	}
	f.head = f.head[:0]
	f.left = f.size
	return true, f.begin(h[0]&frameOpcode, h[0]&frameFinal != 0)
}

// begin begins a frame, if a frame of this kind may follow (RFC 6455 sections 5.4 and 5.5).
func (f *frames) begin(opcode byte, final bool) error {
	f.final, f.control = final, opcode&frameControl != 0
	if f.control {
		f.aside.begin()
		if opcode > opPong || !final || f.size > maxControl {
			return ErrFrame
		}
		return nil
	}
	if opcode > opBinary || f.open != (opcode == opContinuation) || f.size>>63 != 0 {
		return ErrFrame
	}
	f.open = !final
	return nil
}

// payload reads a part of a payload.
func (f *frames) payload(p []byte) {
	t := &f.message
	if f.control {
		t = &f.aside
	}
	f.out = append(f.out, p...)
	for range p {
		f.data = append(f.data, !f.control)
	}
	t.add(p)
	t.n += uint64(len(p))
	ready := t.look(false)
	for _, sp := range t.spans {
		before := t.n - uint64(len(t.text))
		f.blot(t, before+uint64(sp.from), before+uint64(sp.to))
	}
	t.spans, t.held = t.spans[:0], len(t.text)-ready
	t.forget(ready)
}

// blot overwrites a part of a text. All its bytes are still in out, because a possible secret is
// held back.
func (f *frames) blot(t *text, from, to uint64) {
	if from >= t.to {
		f.hits(1)
	}
	t.to = max(t.to, to)
	i := len(f.out) - 1
	for n := t.n; n > from; i-- {
		if f.data[i] != f.control {
			if n--; n < to {
				f.out[i] = '*'
			}
		}
	}
}

// over ends a frame. The end of a message ends every possible secret in it.
func (f *frames) over() {
	if f.final && !f.control {
		f.message.begin()
	}
}

// release sets how much of out may be returned: no byte of a possible secret, and no part of a
// control frame before it is complete. The beginning of that data never moves backwards, so that
// out is scanned only once.
func (f *frames) release() error {
	end := len(f.out)
	if f.control && f.left > 0 {
		end -= int(f.size - f.left)
	}
	first := f.message.n - uint64(f.message.held)
	for f.ready < end && (!f.data[f.ready] || f.passed < first) {
		if f.data[f.ready] {
			f.passed++
		}
		f.ready++
	}
	if len(f.out)-f.ready-f.message.held > maxBetween {
		return ErrFrame
	}
	return nil
}
