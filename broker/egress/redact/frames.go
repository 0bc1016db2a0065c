package redact

import (
	"encoding/binary"
	"errors"
	"io"
)

// Frames is a stream of frames of a WebSocket's server (RFC 6455 section 5.2) in which each
// byte of a secret is an asterisk: the lengths of frames stay, and text stays text. A secret is
// found in the payload of a message, in however many frames it comes and whatever control
// frames come between. What may still become one is held back, to the end of its message at
// most. hits is told of each secret; nil = nobody is.
//
// Frames that are masked, of an extension, or out of order cannot be read: the stream ends there
// with an error, and so it does in the middle of a message, and when too much that is none of
// the message comes in the middle of what may become a secret.
func (r *Redactor) Frames(src io.Reader, hits func(n int)) io.Reader {
	if hits == nil {
		hits = func(int) {}
	}
	return &frames{src: src, a: r.a, hits: hits}
}

// ErrFrame is what reading one ends with that is not as a server without extensions has to say it.
var ErrFrame = errors.New("redact: what came is no frame of a WebSocket's server without extensions")

const (
	frameFinal   = 0x80 // bits of the first byte
	frameRSV     = 0x70 // of extensions
	frameOpcode  = 0x0f
	frameControl = 0x08
	frameMasked  = 0x80 // of the second
	maxControl   = 125
)

const ( // opcodes
	opContinuation = 0x0
	opBinary       = 0x2 // the last of data
	opPong         = 0xA // the last of control
)

// maxBetween is how much of headers and control frames may be held back, in bytes: between the
// bytes of what may become a secret a server could send pings without end.
const maxBetween = 64 << 10

type frames struct {
	src  io.Reader
	a    *automaton
	hits func(int)

	in     []byte
	out    []byte
	data   []bool // of out: it is payload of a message, and no header or control frame
	given  int    // how much of out was given on
	ready  int    // how much of it can be
	passed uint64 // bytes of messages in all that came before ready
	err    error

	head    []byte // of the frame that begins
	size    uint64 // of the frame's payload
	left    uint64 // of that, to come
	final   bool
	control bool
	open    bool // a message has begun, and its last frame has not
	message text
	aside   text // of the control frame
}

// text is what was read of messages, or of one control frame.
type text struct {
	state    uint32
	n        uint64 // bytes
	from, to uint64 // which of them were overwritten last
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

// feed reads what came.
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

// header reads a byte of one; whole: it was the last.
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
	more := 0 // bytes of the length
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

// begin begins a frame, if one of this kind may come now (RFC 6455 sections 5.4 and 5.5).
func (f *frames) begin(opcode byte, final bool) error {
	f.final, f.control, f.aside = final, opcode&frameControl != 0, text{}
	if f.control {
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

// payload reads a part of one.
func (f *frames) payload(p []byte) {
	t := &f.message
	if f.control {
		t = &f.aside
	}
	at := len(f.out)
	f.out = append(f.out, p...)
	for range p {
		f.data = append(f.data, !f.control)
	}
	for i, b := range p {
		t.n++
		if t.state == 0 && !f.a.first[b] {
			continue
		}
		if t.state = f.a.step(t.state, b); t.state >= hit {
			t.state &^= hit
			f.blot(t, at+i, uint64(f.a.of(t.state).found))
		}
	}
}

// blot overwrites the n bytes of a text that end at byte i of out. They are all here: what a
// pattern may cover was held.
func (f *frames) blot(t *text, i int, n uint64) {
	from := t.n - n
	switch {
	case from >= t.to:
		t.from = from
		f.hits(1)
	case from >= t.from: // it goes on where the one before ended
		n = t.n - t.to
	default:
		t.from = from
	}
	t.to = t.n
	for ; n > 0; i-- {
		if f.data[i] != f.control {
			f.out[i] = '*'
			n--
		}
	}
}

// over ends a frame. With a message everything ends that could become a secret in it.
func (f *frames) over() {
	if f.final && !f.control {
		f.message.state = 0
	}
}

// release says how much of out can be given on: nothing of what may become a secret, and
// nothing that a control frame says before it is whole. What that is begins later with each
// byte that comes, and never earlier: out is gone through once.
func (f *frames) release() error {
	end := len(f.out)
	if f.control && f.left > 0 {
		end -= int(f.size - f.left)
	}
	depth := int(f.a.of(f.message.state).depth)
	first := f.message.n - uint64(depth)
	for f.ready < end && (!f.data[f.ready] || f.passed < first) {
		if f.data[f.ready] {
			f.passed++
		}
		f.ready++
	}
	if len(f.out)-f.ready-depth > maxBetween {
		return ErrFrame
	}
	return nil
}
