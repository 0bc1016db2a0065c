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

// connects sends CONNECT and hangs up. It returns whether a tunnel was opened.
func (x *sandbox) connects(t *testing.T, host string) bool {
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

// refusedAfter returns how many times try succeeds before it is refused.
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

// TestTunnelsWithoutRequests (E110): the tunnels that a sandbox opens without sending a request are
// limited. Its used tunnels continue, and other sandboxes are not affected.
//
//ebb:invariant I12 The rate at which a sandbox opens tunnels in which no request is sent is limited
func TestTunnelsWithoutRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(http.ResponseWriter, *http.Request) {})
	x, y := b.sandbox(t), b.sandbox(t)
	c := x.client(t, false)
	auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
	for range 200 { // each in its own tunnel, in which a request is sent
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
		t.Error("another sandbox is refused")
	}
}

// TestTunnelsToManyNames: a sandbox gets certificates for a limited number of names. It can still
// open tunnels to the name that it uses.
//
//ebb:invariant I12 The rate of new host names for which a sandbox has certificates made is limited
func TestTunnelsToManyNames(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(http.ResponseWriter, *http.Request) {})
	x := b.sandbox(t)
	_ = x.inTunnel(t).Close()
	if n := refusedAfter(t, func(i int) bool { return x.connects(t, fmt.Sprintf("n%d.example.com:443", i)) }); n < 32 {
		t.Errorf("refused after %d", n)
	}
	if !x.connects(t, b.host) {
		t.Error("the name that it is at is refused")
	}
}

// TestTunnelsAreNotResumed: a TLS session of one tunnel cannot be resumed in another, to the same
// host or to another host.
//
//ebb:invariant I8 A TLS session of one tunnel cannot be resumed in another tunnel, because resumption would skip the check of the host name
func TestTunnelsAreNotResumed(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(http.ResponseWriter, *http.Request) {})
	x := b.sandbox(t)
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
		if _, err := io.ReadFull(s, make([]byte, 1)); err != nil { // a ticket would have arrived with this byte
			t.Fatal(err)
		}
	}
}
