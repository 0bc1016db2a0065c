package egress

import (
	"bytes"
	"cmp"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ebb/broker/exact"
)

// strict is a connection of HTTP/1.1 whose requests are refused where they are spelled in a way that another
// reader may take for another request. net/http normalises such spellings: a line that ends with LF alone, a
// folded header (RFC 9112 section 5.2), a length beside chunks (section 6.3). It finds the bytes of the heads
// by the framing of the bodies, of which only one reading is left. In place of a head that is refused net/http
// reads refusedHead, and denied says why.
type strict struct {
	net.Conn
	held  []byte      // received, and not read by net/http
	seen  int         // how many of those are lines of a head that were looked at
	give  int         // how many of those may be read
	step  step        // what comes next
	body  int64       // how many bytes of a body or a chunk are left
	late  *time.Timer // ends the connection when a head is not whole in time; nil = none has begun
	raw   atomic.Bool // what comes is no HTTP any more
	fault atomic.Pointer[exact.Error]
}

// step is what a strict reads next.
type step int

const (
	readHead step = iota
	readBody
	readChunk // the line before a chunk
	readData  // a chunk, and the line end behind it
	readTrailer
	readNothing // the head was refused
)

// refusedHead is a request that net/http reads in place of one that is refused.
const refusedHead = "GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n"

// strictHead is how many bytes of a head are looked at. net/http refuses those that are longer.
const strictHead = maxHeader + 8<<10

type strictKey struct{}

// denied is why the request is refused before it is read; nil = it is read.
func denied(r *http.Request) error {
	if s, is := r.Context().Value(strictKey{}).(*strict); is {
		if fault := s.fault.Load(); fault != nil {
			return fault
		}
	}
	return nil
}

// switchedOver has everything that follows be read as it comes: the connection is no HTTP any more.
func switchedOver(r *http.Request) {
	if s, is := r.Context().Value(strictKey{}).(*strict); is {
		s.raw.Store(true)
	}
}

// Read implements io.Reader.
func (s *strict) Read(p []byte) (int, error) {
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

// receive receives more. What is a whole head, as it mostly is, is read at once, without a copy.
func (s *strict) receive(p []byte) (int, error) {
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

// discard reads on, for nobody, until the connection is closed behind the answer: its end would cut the answer.
func (s *strict) discard() error {
	_, err := io.Copy(io.Discard, s.Conn)
	return cmp.Or(err, io.EOF)
}

// onlyWith is an error of a read of nothing: what was read comes first.
func onlyWith(n int, err error) error {
	if n > 0 {
		return nil
	}
	return err
}

// misframed has net/http refuse a body, and refuses what comes behind it: where that begins is not known.
func (s *strict) misframed() {
	s.fault.Store(&exact.Error{Reason: exact.BadHeader, Why: "a chunk or a trailer in front of it is not framed as RFC 9112 section 7.1 says"})
	s.raw.Store(true)
}

// judge looks at bytes that were received. give is how many of them may be read then, 0 = more have to come.
func (s *strict) judge(b []byte) {
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
		if s.give == 0 { // the body was at its end before
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

// judgeHead looks for a whole head, and whether it has one reading.
func (s *strict) judgeHead(b []byte) {
	end, fault := s.headEnd(b)
	switch {
	case fault == "" && end == 0 && len(b) > strictHead:
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
		s.fault.Store(&exact.Error{Reason: exact.BadHeader, Why: fault})
		s.held, s.give, s.step = []byte(refusedHead), len(refusedHead), readNothing
		return
	}
	s.give, s.seen = end, 0
}

// headEnd is where a head ends, 0 = it is not whole, and what is wrong with one of its lines.
func (s *strict) headEnd(b []byte) (end int, fault string) {
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
			return 0, "its first line is not that of a request of HTTP/1.1"
		case len(line) > 0 && (line[0] == ' ' || line[0] == '\t'):
			return 0, "a header of it is folded over several lines"
		}
		at += n + 1
		if len(line) == 0 {
			return at, ""
		}
	}
}

// frame reads from a head what comes behind it (RFC 9112 section 6), and says what is wrong with that.
func (s *strict) frame(head []byte) (fault string) {
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
