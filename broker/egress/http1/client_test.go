package http1_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress/http1"
)

// script is an upstream whose connections a test handles.
type script struct {
	l     net.Listener
	conns atomic.Int64 // accepted so far
	mu    sync.Mutex
	last  net.Conn // the connection that the client has opened last
}

// serve starts an upstream. do is called for each connection, with its number from 1 on, and the
// connection is closed when it returns.
func serve(t *testing.T, do func(n int64, c net.Conn, r *bufio.Reader)) *script {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{l: l}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := s.conns.Add(1)
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				stop := context.AfterFunc(t.Context(), func() { _ = c.Close() })
				defer stop()
				do(n, c, bufio.NewReader(c))
			})
		}
	})
	return s
}

// client returns a client without TLS.
func (s *script) client() *http1.Client {
	return &http1.Client{MaxConns: 16, IdleTime: time.Minute, MaxHead: 4 << 10, Dial: func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", s.l.Addr().String())
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = c
		return c, err
	}}
}

// arrives waits until data, or the end of the upstream's side, is at the client's last connection.
func (s *script) arrives(t *testing.T) {
	t.Helper()
	raw, err := s.last.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return !errors.Is(err, syscall.EAGAIN)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// take reads a request with its body. It returns false at the end of the connection.
func take(r *bufio.Reader) bool {
	q, err := http.ReadRequest(r)
	if err == nil {
		_, err = io.Copy(io.Discard, q.Body)
	}
	return err == nil
}

func request(t *testing.T, method, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://upstream.example/path?q=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send sends a request and returns the body of the response.
func send(t *testing.T, c *http1.Client, method, body string) (string, error) {
	t.Helper()
	res, err := c.RoundTrip(request(t, method, body))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(res.Body)
	return string(text), errors.Join(err, res.Body.Close())
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// closed waits until the client has closed a connection.
func closed(r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }

// A connection carries the next request after a response of any framing that has an end.
func TestReuse(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"length":   ok,
		"chunked":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"trailer":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2\r\nok\r\n0\r\nX-A: 1\r\n\r\n",
		"no body":  "HTTP/1.1 204 No Content\r\n\r\n",
		"interim":  "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok,
		"1.0, too": "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
	} {
		s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
			for take(r) {
				_, _ = io.WriteString(c, answer)
			}
		})
		c := s.client()
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			body := ""
			if method[0] == 'P' {
				body = "a body"
			}
			if text, err := send(t, c, method, body); err != nil || text != "ok" && name != "no body" {
				t.Errorf("%s: %s: %q %v", name, method, text, err)
			}
		}
		if n := s.conns.Load(); n != 1 {
			t.Errorf("%s: %d connections for 4 requests", name, n)
		}
		c.CloseIdleConnections()
	}
}

// A connection carries no further request if its end or the place of the next response is unknown.
func TestNoReuse(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"close":            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"until the end":    "HTTP/1.1 200 OK\r\n\r\nok",
		"HTTP/1.0":         "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"a second one":     ok + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
		"rest without end": ok + "x",
		"204 with a body":  "HTTP/1.1 204 No Content\r\n\r\nok",
	} {
		s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
			if take(r) {
				_, _ = io.WriteString(c, answer)
			}
		})
		c := s.client()
		for range 3 {
			if text, err := send(t, c, "POST", ""); err != nil || text != "ok" && name != "204 with a body" {
				t.Errorf("%s: %q %v", name, text, err)
			}
		}
		if n := s.conns.Load(); n != 3 {
			t.Errorf("%s: %d connections for 3 requests", name, n)
		}
	}
}

// A response that arrives without a request is not used for the next request.
func TestUnaskedResponse(t *testing.T) {
	t.Parallel()
	read := make(chan bool)
	s := serve(t, func(n int64, c net.Conn, r *bufio.Reader) {
		take(r)
		_, _ = io.WriteString(c, ok)
		if n == 1 {
			<-read
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
			closed(r)
		}
	})
	c := s.client()
	if _, err := send(t, c, "GET", ""); err != nil {
		t.Fatal(err)
	}
	close(read)
	s.arrives(t)
	if text, err := send(t, c, "POST", "b"); err != nil || text != "ok" {
		t.Errorf("%q %v", text, err)
	}
}

// An idle connection that the upstream has closed carries no request, and no request is lost.
func TestClosedWhileIdle(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		take(r)
		_, _ = io.WriteString(c, ok)
		_ = c.(*net.TCPConn).CloseWrite()
		closed(r)
	})
	c := s.client()
	for range 20 {
		if text, err := send(t, c, "POST", "b"); err != nil || text != "ok" {
			t.Fatalf("%q %v", text, err)
		}
		s.arrives(t)
	}
}

// A request that is lost on a used connection is sent again only if it changes nothing at the upstream.
func TestLostRequest(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		method, body, answer string
		again                bool
	}{
		{"GET", "", "", true},
		{"HEAD", "", "", true},
		{"GET", "with a body", "", false},
		{"POST", "", "", false},
		{"PUT", "b", "", false},
		{"DELETE", "", "", false},
		{"GET", "", "H", false}, // the response has begun
	} {
		var lost atomic.Int64
		s := serve(t, func(n int64, c net.Conn, r *bufio.Reader) {
			take(r)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			if n == 1 && take(r) {
				lost.Add(1)
				_, _ = io.WriteString(c, x.answer)
			}
		})
		c := s.client()
		if _, err := send(t, c, "GET", ""); err != nil {
			t.Fatal(err)
		}
		r := request(t, x.method, x.body)
		r.Header.Set("Idempotency-Key", "k")
		res, err := c.RoundTrip(r)
		if err == nil {
			_ = res.Body.Close()
		}
		if (err == nil) != x.again || lost.Load() != 1 {
			t.Errorf("%s %q %q: %v, lost %d", x.method, x.body, x.answer, err, lost.Load())
		}
	}
	// On a new connection nothing is sent again.
	s := serve(t, func(_ int64, _ net.Conn, r *bufio.Reader) { take(r) })
	if _, err := send(t, s.client(), "GET", ""); err == nil || s.conns.Load() != 1 {
		t.Errorf("%v, %d connections", err, s.conns.Load())
	}
}

// A response before the end of the request reaches the caller, and its connection is not used again.
func TestEarlyResponse(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.ReadFull(q.Body, make([]byte, 10))
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
		closed(r)
	})
	c := s.client()
	from, to := io.Pipe()
	go func() { _, _ = io.WriteString(to, "0123456789") }() // the rest never comes
	r := request(t, "POST", "")
	r.Body, r.ContentLength = from, 1000
	res, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 413 || string(text) != "no" {
		t.Errorf("%s %q %v", res.Status, text, err)
	}
	_, _ = res.Body.Close(), from.Close()
	if _, err := send(t, c, "POST", "0123456789"); err != nil || s.conns.Load() != 2 {
		t.Errorf("%v, %d connections", err, s.conns.Load())
	}
}

// The error of a request's body is the error of the request, and the upstream receives an incomplete body.
func TestUnreadableBody(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	s := serve(t, func(_ int64, _ net.Conn, r *bufio.Reader) {
		q, err := http.ReadRequest(r)
		if err == nil {
			_, err = io.Copy(io.Discard, q.Body)
		}
		got <- err
	})
	from, to := io.Pipe()
	mine := errors.New("the body broke")
	go func() { _, _ = io.WriteString(to, "part"); _ = to.CloseWithError(mine) }()
	r := request(t, "POST", "")
	r.Body, r.ContentLength = from, -1
	if _, err := s.client().RoundTrip(r); !errors.Is(err, mine) {
		t.Errorf("the request: %v", err)
	}
	if err := <-got; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the upstream: %v", err)
	}
}

// The response to a request that was broken off does not reach the caller.
func TestResponseToAnUnreadableBody(t *testing.T) {
	t.Parallel()
	_, c := overTLS(t, tls.VersionTLS13, func(_ int64, _ *segments, c *tls.Conn, r *bufio.Reader) {
		take(r) // until the body breaks off
		_, _ = io.WriteString(c, ok)
	})
	mine := errors.New("the body broke")
	for range 200 {
		from, to := io.Pipe()
		go func() { _, _ = io.WriteString(to, "part"); _ = to.CloseWithError(mine) }()
		r := request(t, "POST", "")
		r.Body, r.ContentLength = from, -1
		if res, err := c.RoundTrip(r); !errors.Is(err, mine) {
			t.Fatal(res, err)
		}
	}
}

// A request that cannot be written, or whose body is shorter than declared, ends at once.
func TestShortBody(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int64, _ net.Conn, r *bufio.Reader) { take(r); closed(r) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r := request(t, "POST", "").WithContext(ctx)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("short")), 100
	if _, err := s.client().RoundTrip(r); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	r = request(t, "POST", "body").WithContext(ctx)
	r.URL.Opaque = "//a\x00"
	if _, err := s.client().RoundTrip(r); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// The end of the context ends a request in each of its phases, with its cause.
func TestContext(t *testing.T) {
	t.Parallel()
	mine := errors.New("over")
	for name, answer := range map[string]string{"before the response": "", "in its head": "HTTP/1.1 200 OK\r\nX", "in its body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "in an upgrade": "HTTP/1.1 101 Switching Protocols\r\n\r\n"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan bool, 1)
		s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
			take(r)
			_, _ = io.WriteString(c, answer)
			if !strings.HasSuffix(answer, "\n") && !strings.HasSuffix(answer, "ok") {
				cancel(mine)
			}
			closed(r)
			gone <- true
		})
		res, err := s.client().RoundTrip(request(t, "GET", "").WithContext(ctx))
		if err == nil {
			cancel(mine)
			_, err = io.ReadAll(res.Body)
			if err == nil {
				t.Errorf("%s: the body has an end", name)
			}
			_ = res.Body.Close()
		} else if !errors.Is(err, mine) {
			t.Errorf("%s: %v", name, err)
		}
		<-gone
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(mine)
	c := &http1.Client{MaxConns: 1, Dial: func(ctx context.Context) (net.Conn, error) { return nil, ctx.Err() }}
	if _, err := c.RoundTrip(request(t, "GET", "").WithContext(ctx)); !errors.Is(err, mine) {
		t.Errorf("before the connection: %v", err)
	}
}

// The size of heads is limited, also if they have many small parts.
func TestBounds(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		answer string
		fits   bool
	}{
		"long header":    {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 4<<10) + "\r\nContent-Length: 0\r\n\r\n", false},
		"many headers":   {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: 1\r\n", 700) + "Content-Length: 0\r\n\r\n", false},
		"some headers":   {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: 1\r\n", 600) + "Content-Length: 0\r\n\r\n", true},
		"many interim":   {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 6) + ok, false},
		"some interim":   {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 5) + ok, true},
		"long interim":   {strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 1<<10)+"\r\n\r\n", 5) + ok, false},
		"body beyond it": {"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000), true},
	} {
		s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
			take(r)
			_, _ = io.WriteString(c, x.answer)
			closed(r)
		})
		c := s.client()
		if _, err := send(t, c, "GET", ""); (err == nil) != x.fits {
			t.Errorf("%s: %v", name, err)
		}
		c.CloseIdleConnections()
	}
}

// No request leaves with a header that the upstream could read as something else.
func TestInvalidHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, func(int64, net.Conn, *bufio.Reader) {})
	for name, value := range map[string]string{"X": "a\r\nY: b", "Z": "a\nb", "N": "a\x00b", "A b": "1", "A:": "1", "A\r\nB": "1", "": "1"} {
		r := request(t, "GET", "")
		r.Header[name] = []string{value}
		if _, err := s.client().RoundTrip(r); err == nil {
			t.Errorf("%q: %q was sent", name, value)
		}
	}
	if n := s.conns.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// After a response 101 the connection belongs to its caller.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		take(r)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ")
		_, _ = io.Copy(c, r)
	})
	res, err := s.client().RoundTrip(request(t, "GET", ""))
	if err != nil {
		t.Fatal(err)
	}
	rw := res.Body.(io.ReadWriteCloser)
	got := make([]byte, 11)
	_, err1 := io.WriteString(rw, "world")
	_, err2 := io.ReadFull(rw, got)
	if err := errors.Join(err1, err2, rw.Close()); err != nil || string(got) != "hello world" {
		t.Errorf("%q %v", got, err)
	}
}

// At most MaxConns connections are open. Each connection that ends, in any way, frees its place.
func TestMaxConns(t *testing.T) {
	t.Parallel()
	ends := make(chan bool, 8)
	release := make(chan bool)
	s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		for first := true; take(r); first = false {
			if first {
				<-release
			}
			_, _ = io.WriteString(c, ok)
		}
		ends <- true
	})
	c := s.client()
	c.MaxConns = 4
	broken := errors.New("no route")
	dial := c.Dial
	c.Dial = func(context.Context) (net.Conn, error) { return nil, broken }
	for range 6 {
		if _, err := send(t, c, "GET", ""); !errors.Is(err, broken) {
			t.Fatal(err)
		}
	}
	c.Dial = dial
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			r := request(t, "GET", "")
			if i == 0 {
				r = r.WithContext(ctx)
			}
			if res, err := c.RoundTrip(r); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			} else if i > 0 {
				t.Error(err)
			}
		})
	}
	for s.conns.Load() < 4 {
		runtime.Gosched()
	}
	if _, err := send(t, c, "GET", ""); !errors.Is(err, http1.ErrMaxConns) || s.conns.Load() != 4 {
		t.Errorf("a fifth connection: %v", err)
	}
	cancel()
	close(release)
	wg.Wait()
	<-ends
	for range 2 {
		if _, err := send(t, c, "GET", ""); err != nil {
			t.Fatal(err)
		}
	}
	c.CloseIdleConnections()
	for range 3 {
		<-ends
	}
}

// An idle connection is closed after IdleTime.
func TestIdleTime(t *testing.T) {
	t.Parallel()
	end := make(chan bool)
	s := serve(t, func(_ int64, c net.Conn, r *bufio.Reader) {
		take(r)
		_, _ = io.WriteString(c, ok)
		closed(r)
		close(end)
	})
	c := s.client()
	c.IdleTime = time.Millisecond
	if _, err := send(t, c, "GET", ""); err != nil {
		t.Fatal(err)
	}
	<-end
}

// Many callers share a client, and every response belongs to its request.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s", r.Header.Get("X-Id"), text)
	}))
	defer s.Close()
	c := (&script{l: s.Listener}).client()
	c.IdleTime = time.Millisecond
	defer c.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				id := fmt.Sprint(i, "-", j)
				r := request(t, "POST", id)
				r.Header.Set("X-Id", id)
				ctx, cancel := context.WithCancel(r.Context())
				res, err := c.RoundTrip(r.WithContext(ctx))
				if err != nil {
					t.Error(err)
					cancel()
					continue
				}
				if j%5 == 0 {
					cancel() // at the same time as the end of the response
				}
				text, err := io.ReadAll(res.Body)
				if err == nil && string(text) != id+" "+id {
					t.Errorf("%s: %q", id, text)
				}
				_ = res.Body.Close()
				cancel()
			}
		})
	}
	wg.Wait()
}
