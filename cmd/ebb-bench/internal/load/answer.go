package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	maxHead = 16 << 10 // status line and header fields of a response, bytes
	maxBody = 1 << 20  // body of a response, bytes
)

// Errors for refused responses.
var (
	errHead   = errors.New("the response head is malformed")
	errLength = errors.New("the response must give its length in exactly one way")
	errChunk  = errors.New("a response chunk is malformed")
	errLarge  = errors.New("the response is too large")
	errMore   = errors.New("bytes after the end of the response")
	errClose  = errors.New("the server closes connections, so the run would measure connecting")
)

// answers reads the responses of one connection, one for each request. It
// supports the part of HTTP/1.1 (RFC 9112) that servers under load use, and
// refuses the rest instead of guessing the end of a response. net/http's reader
// costs several times as much, and on one machine that processor time is taken
// from the server.
type answers struct {
	r    io.Reader
	buf  []byte // buf[:n] has been read of this response
	n    int
	body []byte // of a chunked response
}

// next reads one response. The body is valid until the next call.
func (a *answers) next() (status int, body []byte, err error) {
	a.n = 0
	return a.resume()
}

// resume continues where next or resume failed because r had no data yet.
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

// head reads up to the empty line and returns the offset after it.
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

// chunks reads a chunked body that starts at from into a.body and returns the
// end of the response.
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

// chunkSize parses the line at from: hexadecimal digits only, no extension.
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

// have reads until the buffer has n bytes.
func (a *answers) have(n int) error {
	for a.n < n {
		if err := a.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads once. EOF in the middle of a response is an error.
func (a *answers) fill() error {
	if a.n == len(a.buf) {
		a.buf = append(a.buf, make([]byte, max(4<<10, len(a.buf)))...)
	}
	n, err := a.r.Read(a.buf[a.n:])
	a.n += n
	switch {
	case n > 0:
		return nil // the next read returns the error again
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}
