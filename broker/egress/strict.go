package egress

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker/stricturl"
)

// strictConn is an HTTP/1.1 connection that refuses requests which another server could read in
// another way. net/http accepts such spellings: a line that ends with LF alone, a folded header
// (RFC 9112 section 5.2), Content-Length together with chunks (section 6.3). strictConn finds the
// heads by the framing of the bodies, which it checks as well. net/http reads refusedHead in place
// of a refused head, and denied returns the reason.
type strictConn struct {
	net.Conn
	held  []byte      // received, and not yet read by net/http
	seen  int         // bytes of held that are checked lines of a head
	give  int         // bytes of held that may be read
	step  step        // what is parsed next
	body  int64       // remaining bytes of a body or chunk
	late  *time.Timer // closes the connection when a head is not complete in time; nil = no head has begun
	raw   atomic.Bool // the connection is no longer HTTP
	fault atomic.Pointer[stricturl.Error]
}

// step is what a strictConn parses next.
type step int

const (
	readHead step = iota
	readBody
	readChunk // the line before a chunk
	readData  // a chunk, and the line end after it
	readTrailer
	readNothing // a head or a body was refused
)

// refusedHead is the request that net/http reads in place of a refused one, and refusedHost is its Host,
// by which denied recognizes it.
const (
	refusedHead = "GET / HTTP/1.1\r\nHost: " + refusedHost + "\r\nConnection: close\r\n\r\n"
	refusedHost = "refused"
)

// maxStrictHead is how many bytes of a head are checked. net/http refuses longer heads.
const maxStrictHead = maxHeader + 8<<10

type strictKey struct{}

// denied returns why a request was refused before it was parsed; nil = it was parsed. net/http reads
// the next request while a handler runs, so only a request for refusedHost is the refused one.
func denied(r *http.Request) error {
	if s, is := r.Context().Value(strictKey{}).(*strictConn); is && r.Host == refusedHost {
		if fault := s.fault.Load(); fault != nil {
			return fault
		}
	}
	return nil
}

// switchedOver passes all that follows unchanged, because the connection is no longer HTTP.
func switchedOver(r *http.Request) {
	if s, is := r.Context().Value(strictKey{}).(*strictConn); is {
		s.raw.Store(true)
	}
}

// Read implements io.Reader.
func (s *strictConn) Read(p []byte) (int, error) {
	for {
		switch {
		case s.raw.Load() && len(s.held) > 0:
			s.give = len(s.held)
		case s.raw.Load():
			return s.Conn.Read(p)
		}
		if s.give > 0 {
			n := copy(p, s.held[:s.give])
			s.give -= n
			if s.held = s.held[n:]; len(s.held) == 0 {
				s.held = nil
			}
			return n, nil
		}
		if len(s.held) > 0 {
			s.judge(s.held)
			if s.give > 0 || s.raw.Load() {
				continue
			}
		}
		if s.step == readNothing {
			return 0, s.discard()
		}
		if (s.step == readBody || s.step == readData) && s.body > 0 && len(s.held) == 0 {
			n, err := s.Conn.Read(p[:min(int64(len(p)), s.body)])
			s.body -= int64(n)
			return n, err
		}
		if n, err := s.receive(p); n > 0 || err != nil {
			return n, err
		}
	}
}

// receive reads more data. A complete head, which is the usual case, is passed on at once, without
// a copy.
func (s *strictConn) receive(p []byte) (int, error) {
	if len(s.held) > 0 {
		more := make([]byte, 4<<10)
		n, err := s.Conn.Read(more)
		s.held = append(s.held, more[:n]...)
		return 0, onlyWith(n, err)
	}
	n, err := s.Conn.Read(p)
	if n == 0 {
		return 0, err
	}
	s.judge(p[:n])
	if s.step != readNothing && s.give == n {
		s.give = 0
		return n, nil
	}
	if s.step != readNothing {
		s.held = append([]byte(nil), p[:n]...)
	}
	return 0, nil
}

// discard reads and drops data until the connection is closed after the response. An earlier end
// would cut the response off.
func (s *strictConn) discard() error {
	_, err := io.Copy(io.Discard, s.Conn)
	return cmp.Or(err, io.EOF)
}

// onlyWith returns err only if nothing was read, because data comes before the error.
func onlyWith(n int, err error) error {
	if n > 0 {
		return nil
	}
	return err
}

// refusedLine is what net/http reads in place of a refused line of a chunked body: it is neither
// the size of a chunk nor a trailer.
const refusedLine = "\x00\r\n\r\n"

// misframed makes net/http refuse a body. Data after the body is not read, because its beginning is
// unknown.
func (s *strictConn) misframed() {
	s.held, s.give, s.step = []byte(refusedLine), len(refusedLine), readNothing
}

// judge checks received bytes. It sets give to how many of them may be read; 0 = more bytes are
// needed.
func (s *strictConn) judge(b []byte) {
	switch s.step {
	case readHead:
		s.judgeHead(b)
		return
	case readBody, readData:
		s.give = int(min(int64(len(b)), s.body))
		s.body -= int64(s.give)
		if s.body > 0 {
			return
		}
		if s.step == readBody {
			s.step = readHead
		} else {
			s.step = readChunk
		}
		if s.give == 0 { // the body had ended before
			s.judge(b)
		}
		return
	}
	end := bytes.IndexByte(b, '\n')
	switch {
	case end < 0 && len(b) > maxHeader, end == 0, end > 0 && b[end-1] != '\r':
		s.misframed()
		return
	case end < 0:
		return
	}
	s.give = end + 1
	line := b[:end-1]
	if s.step == readTrailer {
		if len(line) == 0 {
			s.step = readHead
		}
		return
	}
	digits, _, _ := bytes.Cut(line, []byte{';'})
	size, err := strconv.ParseUint(string(bytes.TrimRight(digits, " \t")), 16, 62)
	switch {
	case err != nil:
		s.misframed()
	case size == 0:
		s.step = readTrailer
	default:
		s.step, s.body = readData, int64(size)+2
	}
}

// judgeHead checks whether a head is complete and can be read in only one way.
func (s *strictConn) judgeHead(b []byte) {
	end, fault := s.headEnd(b)
	switch {
	case fault == "" && end == 0 && len(b) > maxStrictHead:
		s.raw.Store(true) // net/http refuses it, and closes the connection
		return
	case fault == "" && end == 0:
		if s.late == nil {
			s.late = time.AfterFunc(headerTime, func() { _ = s.Conn.Close() })
		}
		return
	}
	if s.late != nil {
		s.late.Stop()
		s.late = nil
	}
	if fault == "" {
		fault = s.frame(b[:end])
	}
	if fault != "" {
		s.fault.Store(&stricturl.Error{Reason: stricturl.BadHeader, Why: fault})
		s.held, s.give, s.step = []byte(refusedHead), len(refusedHead), readNothing
		return
	}
	s.give, s.seen = end, 0
}

// headEnd returns the length of a head, 0 = incomplete, and the fault of one of its lines.
func (s *strictConn) headEnd(b []byte) (end int, fault string) {
	for at := s.seen; ; {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			s.seen = at
			return 0, ""
		}
		line := b[at : at+n]
		if n == 0 || line[n-1] != '\r' {
			return 0, "a line of its head ends with LF alone, not with CR LF"
		}
		line = line[:n-1]
		switch {
		case bytes.IndexByte(line, '\r') >= 0:
			return 0, "a line of its head holds a CR"
		case at == 0 && !bytes.Contains(line, []byte(" HTTP/")):
			return 0, "its first line is not a request line of HTTP/1.1"
		case len(line) > 0 && (line[0] == ' ' || line[0] == '\t'):
			return 0, "one of its headers is folded over several lines"
		}
		at += n + 1
		if len(line) == 0 {
			return at, ""
		}
	}
}

// frame reads the framing of the body from a head (RFC 9112 section 6), and returns its fault.
func (s *strictConn) frame(head []byte) (fault string) {
	first, rest, _ := bytes.Cut(head, []byte("\r\n"))
	var lengths, codings []string
	for len(rest) > 2 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			lengths = append(lengths, strings.Trim(string(value), " \t"))
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			codings = append(codings, strings.Trim(string(value), " \t"))
		case len(name) > 0 && (name[len(name)-1] == ' ' || name[len(name)-1] == '\t'):
			return "there is a space between the name of a header and its colon"
		}
	}
	switch {
	case len(lengths) > 0 && len(codings) > 0:
		return "it has both Content-Length and Transfer-Encoding"
	case len(lengths) > 1:
		return "it has more than one Content-Length"
	case len(codings) > 1 || len(codings) == 1 && !strings.EqualFold(codings[0], "chunked"):
		s.raw.Store(true) // net/http refuses it with 501, and closes the connection
	case len(codings) == 1 && !bytes.HasSuffix(first, []byte(" HTTP/1.1")):
		return "only HTTP/1.1 has Transfer-Encoding"
	case len(codings) == 1:
		s.step = readChunk
	case len(lengths) == 1:
		n, err := strconv.ParseUint(lengths[0], 10, 62)
		if err != nil {
			return "its Content-Length is not a number"
		}
		s.step, s.body = readBody, int64(n)
	}
	if s.step == readBody && s.body == 0 {
		s.step = readHead
	}
	if bytes.HasPrefix(first, []byte("CONNECT ")) {
		s.raw.Store(true) // what follows is a tunnel, or the end of the connection
	}
	return ""
}

// markScheme makes s mark HTTP/2 requests whose :scheme is not https, for otherScheme. net/http
// marks them by TLS = nil, but sets TLS again before a handler runs.
func markScheme(s *http.Server) {
	_ = s.Serve(noListener{}) // which makes TLSNextProto
	serve := s.TLSNextProto["h2"]
	s.TLSNextProto["h2"] = func(s *http.Server, c *tls.Conn, h http.Handler) { serve(s, c, schemed{h}) }
}

type schemed struct{ http.Handler }

type schemeKey struct{}

// ServeHTTP implements http.Handler.
func (h schemed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil {
		r = r.WithContext(context.WithValue(r.Context(), schemeKey{}, true))
	}
	h.Handler.ServeHTTP(w, r)
}

// BaseContext is called by net/http on its handler.
func (h schemed) BaseContext() context.Context {
	return h.Handler.(interface{ BaseContext() context.Context }).BaseContext()
}

// otherScheme reports whether the :scheme of a request of HTTP/2 is not https.
func otherScheme(r *http.Request) bool { return r.Context().Value(schemeKey{}) != nil }

// noListener is a listener that accepts no connections.
type noListener struct{}

// Accept implements net.Listener.
func (noListener) Accept() (net.Conn, error) {
	return nil, errors.New("this listener accepts no connections")
}

// Close implements net.Listener.
func (noListener) Close() error { return nil }

// Addr implements net.Listener.
func (noListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "none"} }

// connKey is the context key of the connection that a request arrived on, without its tunnel.
type connKey struct{}
