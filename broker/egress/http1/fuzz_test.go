package http1_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress/http1"
)

// once is a connection to an upstream that sends a text after the first byte of a request, and then ends.
type once struct {
	net.Conn // nil: no other method is used
	from     io.Reader
	asked    chan struct{}
	ask      sync.Once
}

func newOnce(text string) *once {
	return &once{from: strings.NewReader(text), asked: make(chan struct{})}
}

func (o *once) Read(p []byte) (int, error) { <-o.asked; return o.from.Read(p) }

func (o *once) Write(p []byte) (int, error) {
	o.ask.Do(func() { close(o.asked) })
	return len(p), nil
}

func (o *once) Close() error {
	o.ask.Do(func() { close(o.asked) })
	return nil
}

// outcome returns all that a caller can see of a response.
func outcome(r http.RoundTripper, method string) string {
	q, err := http.NewRequestWithContext(context.Background(), method, "http://upstream.example/", nil)
	if err != nil {
		return err.Error()
	}
	res, err := r.RoundTrip(q)
	if err != nil {
		return "error"
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < 100 {
		return "error" // http.Transport accepts it
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return fmt.Sprint(res.Proto, res.Status, res.Header)
	}
	text, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%s %s %v %q %t %v", res.Proto, res.Status, res.Header, text, err != nil, res.Trailer)
}

// FuzzResponse compares the client with http.Transport: both must return the same response for the same bytes.
func FuzzResponse(f *testing.F) {
	for _, text := range []string{
		ok, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2;x=y\r\nok\r\n0\r\nA: 1\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nuntil the end", "HTTP/1.1 100 Continue\r\n\r\n" + ok, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nrest",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 200\r\n\r\n", "ICY 200 OK\r\n\r\n", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", ok + ok, "", "\r\n" + ok,
	} {
		f.Add(text, byte(0))
		f.Add(text, byte(1))
	}
	f.Fuzz(func(t *testing.T, text string, method byte) {
		m := []string{"GET", "HEAD", "POST"}[method%3]
		mine := &http1.Client{MaxConns: 16, IdleTime: time.Minute, MaxHead: 64 << 10, Dial: func(context.Context) (net.Conn, error) { return newOnce(text), nil }}
		defer mine.CloseIdleConnections()
		theirs := &http.Transport{MaxResponseHeaderBytes: 64 << 10, DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return newOnce(text), nil }}
		defer theirs.CloseIdleConnections()
		if got, want := outcome(mine, m), outcome(theirs, m); got != want {
			t.Errorf("%s %q:\n%s\nhttp.Transport:\n%s", m, text, got, want)
		}
	})
}
