package egress

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// message is one request in the grammar of RFC 9112, parsed without net/http or strictConn.
type message struct {
	method, target, host string
	fields               http.Header // without those that net/http stores elsewhere
	chunked              bool
	body                 string
	whole                bool // its body is complete
}

var (
	lineForm  = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z\x60-]+) ([^\x00-\x20\x7f]+) HTTP/(1\.[0-9])$`)
	fieldForm = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z\x60-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)$`)
	chunkForm = regexp.MustCompile(`^([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n`)
	endForm   = regexp.MustCompile(`^(?:[^\r\n][^\n]*\r\n)*\r\n`)
)

// reading returns the first request in sent, if it can be read in only one way, and the data after
// it.
func reading(sent string) (m message, rest string, one bool) {
	head, rest, ends := strings.Cut(sent, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	first := lineForm.FindStringSubmatch(lines[0])
	if !ends || first == nil {
		return m, "", false
	}
	m = message{method: first[1], target: first[2], fields: http.Header{}}
	var hosts, lengths, codings []string
	for _, line := range lines[1:] {
		f := fieldForm.FindStringSubmatch(line)
		if f == nil {
			return m, "", false
		}
		value := strings.TrimRight(f[2], " \t")
		switch name := textproto.CanonicalMIMEHeaderKey(f[1]); name {
		case "Host":
			hosts = append(hosts, value)
		case "Content-Length":
			lengths = append(lengths, value)
		case "Transfer-Encoding":
			codings = append(codings, value)
		default:
			m.fields[name] = append(m.fields[name], value)
		}
	}
	if len(hosts) > 1 || len(lengths)+len(codings) > 1 {
		return m, "", false
	}
	m.host = strings.Join(hosts, "")
	switch {
	case len(codings) == 1:
		if m.chunked = true; first[3] != "1.1" || !strings.EqualFold(codings[0], "chunked") {
			return m, "", false
		}
		m.body, rest, m.whole = chunks(rest)
	case len(lengths) == 1:
		n, err := strconv.ParseUint(lengths[0], 10, 62)
		if err != nil {
			return m, "", false
		}
		n = min(n, uint64(len(rest))+1)
		if m.whole = n <= uint64(len(rest)); m.whole {
			m.body, rest = rest[:n], rest[n:]
		}
	default:
		m.whole = true
	}
	return m, rest, true
}

// chunks returns the data of a chunked body (RFC 9112 section 7.1), and the data after it.
func chunks(sent string) (body, rest string, whole bool) {
	for {
		m := chunkForm.FindStringSubmatch(sent)
		if m == nil {
			return body, "", false
		}
		n, _ := strconv.ParseUint(m[1], 16, 60)
		if sent = sent[len(m[0]):]; n == 0 {
			end := endForm.FindString(sent)
			return body, sent[len(end):], end != ""
		}
		if uint64(len(sent)) < n+2 || sent[n:n+2] != "\r\n" {
			return body, "", false
		}
		body, sent = body+sent[:n], sent[n+2:]
	}
}

// wire is a connection on which a sandbox has sent all its data.
type wire struct {
	net.Conn
	mu    sync.Mutex
	sent  []byte
	sizes []byte // sizes of the reads in turn, less one; none = all at once
	turn  int
}

// Read implements io.Reader.
func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sent) == 0 {
		return 0, io.EOF
	}
	most := len(p)
	if len(w.sizes) > 0 {
		most = min(most, int(w.sizes[w.turn%len(w.sizes)])+1)
		w.turn++
	}
	n := copy(p[:most], w.sent)
	w.sent = w.sent[n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error)      { return len(p), nil }
func (w *wire) Close() error                     { return nil }
func (w *wire) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (w *wire) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// weighed is a strictConn that records the maximum size of its buffer.
type measured struct {
	*strictConn
	most int
}

func (w *measured) Read(p []byte) (int, error) {
	n, err := w.strictConn.Read(p)
	w.most = max(w.most, len(w.held))
	return n, err
}

// single is a listener that accepts one connection and then waits for its end.
type single struct {
	noListener
	conn  net.Conn
	taken bool
	over  chan struct{}
}

func (s *single) Accept() (net.Conn, error) {
	if s.taken {
		<-s.over
		return nil, io.EOF
	}
	s.taken = true
	return s.conn, nil
}

// serveStrict serves conn by the server of a tunnel until the connection is closed. conn is strict or wraps it.
func serveStrict(conn net.Conn, strict *strictConn, h http.HandlerFunc) {
	l := &single{conn: conn, over: make(chan struct{})}
	b := &endpoint{errorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	srv := b.server(context.Background(), h)
	srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, strictKey{}, strict)
	}
	srv.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			close(l.over)
		}
	}
	_ = srv.Serve(l)
}

// served has a tunnel's server read sent through a strictConn. each is called for each accepted
// request, in order, with its body and whether the body is complete. Refusals are counted.
func served(sent, sizes []byte, each func(r *http.Request, body string, whole bool)) (refusals, held int) {
	conn := &measured{strictConn: &strictConn{Conn: &wire{sent: sent, sizes: sizes}}}
	serveStrict(conn, conn.strictConn, func(w http.ResponseWriter, r *http.Request) {
		if denied(r) != nil {
			refusals++
			return
		}
		body, err := io.ReadAll(r.Body)
		each(r, string(body), err == nil)
		if err != nil || r.Method == http.MethodConnect {
			w.Header().Set("Connection", "close") // as endpoint.answer does
		}
	})
	if conn.late != nil {
		conn.late.Stop()
	}
	return refusals, conn.most
}

// same returns how net/http reads a request differently from m, "" = it does not.
func same(r *http.Request, body string, whole bool, m message) string {
	got := r.Header.Clone()
	for _, name := range []string{"Content-Length", "Trailer", "Cache-Control"} { // net/http makes the last from Pragma
		got.Del(name)
		m.fields.Del(name)
	}
	switch {
	case r.Method != m.method || r.RequestURI != m.target:
		return "it is for " + r.Method + " " + r.RequestURI
	case r.URL.Host == "" && r.Host != m.host:
		return "its host is " + r.Host
	case fmt.Sprint(got) != fmt.Sprint(m.fields):
		return fmt.Sprint("its headers are ", got)
	case m.method == http.MethodConnect: // its body is not defined
		return ""
	case slices.Equal(r.TransferEncoding, []string{"chunked"}) != m.chunked:
		return fmt.Sprint("its coding is ", r.TransferEncoding)
	case whole && (!m.whole || body != m.body):
		return fmt.Sprintf("its body is %q", body)
	}
	return ""
}

// FuzzStrict: each accepted request can be read in only one way by the grammar of RFC 9112, and
// net/http reads it in that way. Each such request is accepted. Data after a refusal or a broken
// body is not read, however the connection is split into packets.
func FuzzStrict(f *testing.F) {
	const get, post = "GET /a?b=c HTTP/1.1\r\nHost: h\r\nX-A:  b \r\n\r\n", "POST /a HTTP/1.1\r\nHost: h\r\n"
	for _, seed := range []string{
		get + get, post + "Content-Length: 2\r\n\r\nhi" + get, post + "Transfer-Encoding: chunked\r\n\r\n2;x=\"y\"\r\nhi\r\n0\r\nX-T: a\r\n\r\n" + get,
		post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", post + "Transfer-Encoding: xchunked\r\n\r\n",
		"GET / HTTP/1.1\nHost: h\n\n", "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", "GET / HTTP/1.1\r\nHost : h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
		"\r\n" + get, "CONNECT a.b:1 HTTP/1.1\r\nHost: a.b:1\r\n\r\n" + get, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + get,
		post + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc" + get, post + "Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n" + get, "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
		post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", post + "Content-Length: 18446744073709551616\r\n\r\n", post + "Transfer-Encoding: chunked\r\n\r\n0\r\na: b\n\r\n\r\n" + get,
	} {
		f.Add([]byte(seed), []byte(nil), uint16(0), uint16(0))
		f.Add([]byte(seed), []byte{0}, uint16(len(seed)/2), uint16(3))
		f.Add([]byte(seed), []byte{3, 40}, uint16(len(seed)-4), uint16(8000))
	}
	f.Fuzz(func(t *testing.T, sent, sizes []byte, at, more uint16) {
		at = min(at, uint16(len(sent)))
		sent = slices.Concat(sent[:at], bytes.Repeat([]byte("a"), int(more%(8<<10))), sent[at:])
		rest, over, n := string(sent), false, 0
		refusals, held := served(sent, sizes, func(r *http.Request, body string, whole bool) {
			if over {
				t.Errorf("%q: request %d, %s %s, is behind one that is broken", sent, n, r.Method, r.RequestURI)
			}
			n++
			if r.Method == "PRI" { // its method is refused
				over = true
				return
			}
			m, behind, one := reading(rest)
			if !one {
				t.Errorf("%q: request %d, %s %s, has no one reading", sent, n, r.Method, r.RequestURI)
			} else if wrong := same(r, body, whole, m); wrong != "" {
				t.Errorf("%q: request %d: %s", sent, n, wrong)
			}
			rest, over = behind, !whole || r.Method == http.MethodConnect
		})
		if _, _, one := reading(rest); refusals > 0 && one && !over {
			t.Errorf("%q: request %d is refused, and has one reading", sent, n+1)
		}
		if refusals > 1 || held > mostHeld {
			t.Errorf("%d refusals, %d bytes were held of %d", refusals, held, len(sent))
		}
	})
}

// mostHeld is the length of a head and of one read.
const mostHeld = maxStrictHead + 4<<10

// TestStrictHoldsNoMore: of endless data no more is buffered than the maximum length of a head, and
// no data after it is read.
//
//ebb:invariant I2 The strict HTTP/1.1 parser buffers no more of endless data than the maximum length of a request head
func TestStrictHoldsNoMore(t *testing.T) {
	t.Parallel()
	const post = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, tt := range map[string]struct {
		begin, end string
		requests   int
	}{
		"a first line": {"GET /", "", 0}, "a header": {"GET / HTTP/1.1\r\nHost: h\r\nX: ", "", 0}, "headers": {"GET / HTTP/1.1\r\nHost: h\r\n", "X: y\r\n", 0},
		"a size of a chunk": {post, "0", 1}, "an extension": {post + "1;", "x", 1}, "a trailer": {post + "0\r\nX:", "y", 1}, "trailers": {post + "0\r\n", "X: y\r\n", 1},
	} {
		for _, sizes := range [][]byte{nil, {0}, {255}} {
			n := 0
			text := tt.begin + strings.Repeat(cmp.Or(tt.end, "x"), (1<<20)/max(1, len(tt.end)))
			refusals, held := served([]byte(text), sizes, func(_ *http.Request, _ string, whole bool) {
				if n++; whole {
					t.Errorf("%s: its body is whole", name)
				}
			})
			if n != tt.requests || refusals > 0 || held > mostHeld {
				t.Errorf("%s: %d requests, %d refusals, %d bytes were held", name, n, refusals, held)
			}
		}
	}
}

// BenchmarkStrict measures how net/http reads a request, with and without strictConn.
func BenchmarkStrict(b *testing.B) {
	head := "GET /v1/charges?limit=10 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\nAuthorization: Bearer ebb-placeholder.lse_0123456789abcdef0123456789abcdef\r\n" +
		"Accept-Encoding: gzip, deflate, br\r\nContent-Type: application/json\r\nX-Request-Id: 0123456789abcdef\r\n"
	for name, text := range map[string]string{"head": head + "\r\n", "body of 1 KiB": head + "Content-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)} {
		for _, disconnect := range []int{len(text), 256} {
			for _, by := range []string{"net/http", "strict"} {
				b.Run(fmt.Sprintf("%s, by %d bytes, %s", name, disconnect, by), func(b *testing.B) {
					var c net.Conn = &repeated{text: text, disconnect: disconnect}
					if by == "strict" {
						c = &strictConn{Conn: c}
					}
					in := bufio.NewReader(c)
					b.ReportAllocs()
					b.SetBytes(int64(len(text)))
					for b.Loop() {
						r, err := http.ReadRequest(in)
						if err == nil {
							_, err = io.Copy(io.Discard, r.Body)
						}
						if err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// repeated is a connection on which the same data is sent again and again.
type repeated struct {
	net.Conn
	text           string
	disconnect, at int
}

// Read implements io.Reader.
func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), r.disconnect)], r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// Close implements io.Closer.
func (r *repeated) Close() error { return errors.New("this connection is never closed") }

// A refused request does not affect the request before it, although net/http reads the next request
// while a handler runs.
func TestRefusalOfTheNextRequest(t *testing.T) {
	t.Parallel()
	conn := &strictConn{Conn: &wire{sent: []byte("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\nHost: h\n\n")}}
	var refused []bool
	serveStrict(conn, conn, func(_ http.ResponseWriter, r *http.Request) {
		for conn.fault.Load() == nil {
			runtime.Gosched()
		}
		refused = append(refused, denied(r) != nil)
	})
	if !slices.Equal(refused, []bool{false, true}) {
		t.Errorf("refused: %v, want the second one", refused)
	}
}
