package web_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/web"
)

// A client that opens connections without end gets n slots, and each closed
// connection frees one.
func TestCapped(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := web.Capped(tcp, 2)
	taken := make(chan net.Conn, 8)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			taken <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	first := <-taken
	<-taken
	select {
	case <-taken:
		t.Fatal("a third connection was taken")
	case <-time.After(200 * time.Millisecond):
	}
	_ = first.Close()
	_ = first.Close() // a second close frees no further slot
	select {
	case <-taken:
	case <-time.After(2 * time.Minute):
		t.Fatal("a connection that was closed makes no room")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("a listener that is closed still waits for room")
	}
}

// A server with a limit serves normally, and every connection that ends frees
// its slot.
//
//ebb:invariant I6 A connection that ends or is forwarded to an egress endpoint frees its slot in the API's connection limit
func TestCappedServer(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	kept := make(chan net.Conn, 2)
	srv := web.NewServer(web.Keeping(t, kept), web.Limits{}, nil)
	go func() { _ = srv.Serve(web.Capped(tcp, 2)) }()
	t.Cleanup(func() { _ = srv.Close() })
	get := func() {
		t.Helper()
		tr := &http.Transport{}
		resp, err := (&http.Client{Transport: tr, Timeout: 2 * time.Minute}).Get("http://" + tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		tr.CloseIdleConnections()
	}
	for range 20 {
		get()
	}
	// A hijacked connection does not use a slot.
	for range 2 {
		c, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, "GET /kept HTTP/1.1\r\nHost: ebb.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if taken, is := <-kept; is {
			defer func() { _ = taken.Close() }()
		}
	}
	get()
}
