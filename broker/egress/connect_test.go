package egress_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// connects sends CONNECT and goes away, and says whether there would have been a tunnel.
func (x *box) connects(t *testing.T, host string) bool {
	t.Helper()
	c, err := x.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, line); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(line), " 200") && !strings.HasSuffix(string(line), " 429") {
		t.Fatalf("%q", line)
	}
	return strings.HasSuffix(string(line), " 200")
}

// refusedAfter is how often something goes before it is refused.
func refusedAfter(t *testing.T, try func(i int) bool) int {
	t.Helper()
	for i := range 5000 {
		if !try(i) {
			return i
		}
	}
	t.Fatal("5000 times, and nothing was refused")
	return 0
}

// TestTunnelsWithoutRequests: (E110) tunnels that a box opens for nothing are bounded. What goes on
// in those it has goes on, and other boxes are not concerned.
func TestTunnelsWithoutRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(http.ResponseWriter, *http.Request) {})
	x, y := b.box(t), b.box(t)
	c := x.client(t, false)
	auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
	for range 200 { // each in a tunnel of its own, and none of them for nothing
		once := x.client(t, false)
		if res, body := send(t, once, "GET", "https://"+b.host+"/v1/charges", "", "Authorization", auth); res.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		once.CloseIdleConnections()
	}
	if res, _ := send(t, c, "GET", "https://"+b.host+"/v1/charges", "", "Authorization", auth); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	if n := refusedAfter(t, func(int) bool { return x.connects(t, b.host) }); n < 64 {
		t.Errorf("refused after %d", n)
	}
	if res, _ := send(t, c, "GET", "https://"+b.host+"/v1/charges", "", "Authorization", auth); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	if !y.connects(t, b.host) {
		t.Error("another box is refused")
	}
}

// TestTunnelsToManyNames: nor does it get certificates for as many names as it likes. To the
// name that it is at it has tunnels still.
func TestTunnelsToManyNames(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(http.ResponseWriter, *http.Request) {})
	x := b.box(t)
	if s, err := x.tunnelTo(t, b.host, "api.example.com"); err != nil {
		t.Fatal(err)
	} else {
		_ = s.Close()
	}
	if n := refusedAfter(t, func(i int) bool { return x.connects(t, fmt.Sprintf("n%d.example.com:443", i)) }); n < 32 {
		t.Errorf("refused after %d", n)
	}
	if !x.connects(t, b.host) {
		t.Error("the name that it is at is refused")
	}
}

// TestTunnelsAreNotResumed: a session of one tunnel opens no other, to the same host or to another.
func TestTunnelsAreNotResumed(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(http.ResponseWriter, *http.Request) {})
	x := b.box(t)
	_, port, _ := strings.Cut(b.host, ":")
	cfg := &tls.Config{ServerName: "api.example.com", ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	for i, host := range []string{b.host, b.host, "www.example.com:" + port} {
		s, err := x.tunnelBy(t, host, cfg)
		if other := i == 2; (err != nil) != other {
			t.Fatalf("to %s: %v", host, err)
		} else if other {
			break
		}
		if s.ConnectionState().DidResume {
			t.Errorf("tunnel %d goes on with the session of another", i)
		}
		_, _ = io.WriteString(s, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		if _, err := io.ReadFull(s, make([]byte, 1)); err != nil { // with it a ticket would have come
			t.Fatal(err)
		}
	}
}
