package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	maxHead = 16 << 10 // status line and header fields of an answer, bytes
	maxBody = 1 << 20  // body of an answer, bytes
)

// The refusals of answers.
var (
	errHead   = errors.New("the head of the answer is malformed")
	errLength = errors.New("the answer does not say its length in exactly one way")
	errChunk  = errors.New("a chunk of the answer is malformed")
	errLarge  = errors.New("the answer is too large")
	errMore   = errors.New("more bytes came than the answer has")
	errClose  = errors.New("the server closes connections; the figures would be of connecting")
)

// answers reads the answers of one connection, one for each request. It knows
// the part of HTTP/1.1 (RFC 9112) that servers under load speak and refuses
// everything else, rather than guess where an answer ends: net/http's reader
// costs several times as much, and what the reader costs is taken from the
// server.
type answers struct {
	r    io.Reader
	buf  []byte // buf[:n] has been read of this answer
	n    int
	body []byte // of a chunked answer
}

// next reads one answer. The body is valid until the next call.
func (a *answers) next() (status int, body []byte, err error) {
	a.n = 0
	return a.resume()
}

// resume reads on where next or resume failed because r had nothing for now.
func (a *answers) resume() (status int, body []byte, err error) {
	end, err := a.head()
	if err != nil {
		return 0, nil, err
	}
	h, err := parseHead(a.buf[:end])
	if err != nil {
		return 0, nil, err
	}
	if h.chunked {
		end, err = a.chunks(end)
		body = a.body
	} else if err = a.have(end + h.length); err == nil {
		body = a.buf[end : end+h.length]
		end += h.length
	}
	switch {
	case err != nil:
		return 0, nil, err
	case a.n != end:
		return 0, nil, errMore
	case h.closes:
		return 0, nil, fmt.Errorf("%w: it said %d %.300q", errClose, h.status, body)
	}
	return h.status, body, nil
}

// head reads until the empty line and says where it ends.
func (a *answers) head() (int, error) {
	for searched := 0; ; {
		if at := bytes.Index(a.buf[searched:a.n], []byte("\r\n\r\n")); at >= 0 {
			return searched + at + 4, nil
		}
		searched = max(0, a.n-3)
		if a.n > maxHead {
			return 0, errLarge
		}
		if err := a.fill(); err != nil {
			return 0, err
		}
	}
}

// chunks reads a chunked body that starts at from into a.body and says where the
// answer ends.
func (a *answers) chunks(from int) (end int, err error) {
	a.body = a.body[:0]
	for {
		size, at, err := a.chunkSize(from)
		if err != nil {
			return 0, err
		}
		if len(a.body)+size > maxBody {
			return 0, errLarge
		}
		end = at + size + 2
		if err := a.have(end); err != nil {
			return 0, err
		}
		// After the last chunk, which is empty, this refuses trailers.
		if a.buf[end-2] != '\r' || a.buf[end-1] != '\n' {
			return 0, errChunk
		}
		if size == 0 {
			return end, nil
		}
		a.body = append(a.body, a.buf[at:at+size]...)
		from = end
	}
}

// chunkSize reads the line at from: hexadecimal digits alone, no extension.
func (a *answers) chunkSize(from int) (size, after int, err error) {
	for at := from; ; at++ {
		if err := a.have(at + 1); err != nil {
			return 0, 0, err
		}
		c := a.buf[at]
		switch {
		case c >= '0' && c <= '9':
			size = size<<4 | int(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			size = size<<4 | int(c|0x20-'a'+10)
		default:
			if err := a.have(at + 2); err != nil {
				return 0, 0, err
			}
			if at == from || c != '\r' || a.buf[at+1] != '\n' {
				return 0, 0, errChunk
			}
			return size, at + 2, nil
		}
		if at-from >= 6 {
			return 0, 0, errLarge
		}
	}
}

// have reads until there are n bytes.
func (a *answers) have(n int) error {
	for a.n < n {
		if err := a.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads once. An end in the middle of an answer is an error.
func (a *answers) fill() error {
	if a.n == len(a.buf) {
		a.buf = append(a.buf, make([]byte, max(4<<10, len(a.buf)))...)
	}
	n, err := a.r.Read(a.buf[a.n:])
	a.n += n
	switch {
	case n > 0:
		return nil // an error comes again
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}
