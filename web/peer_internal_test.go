package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// Keeping returns a handler that hijacks connections with requests for /kept,
// and answers others.
func Keeping(t *testing.T, kept chan<- net.Conn) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/kept" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			close(kept)
			return
		}
		kept <- c
	})
}

// Processes that connect without end get the slots of the socket only, and each
// connection that ends, in any way, frees its slot.
//
//ebb:invariant I6 A connection that ends or is forwarded to an egress endpoint frees its slot in the API's connection limit
func TestPeerPlaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	raw, err := ListenUnix(t.Context(), path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	l, ok := raw.(*peerListener)
	if !ok {
		t.Fatalf("%T", raw)
	}
	l.slots = newSlots(1)
	kept := make(chan net.Conn, 1)
	srv := NewServer(Keeping(t, kept), Limits{}, nil)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	dial := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	get := func(within time.Duration) error {
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil }}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr, Timeout: within}).Get("http://ebb.test/")
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	for range 20 {
		if err := get(2 * time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	hog := dial()
	if err := get(200 * time.Millisecond); err == nil {
		t.Error("a second connection was taken")
	}
	_ = hog.Close()
	if err := get(2 * time.Minute); err != nil {
		t.Errorf("after it has gone: %v", err)
	}
	// A hijacked connection does not use a slot.
	taken := dial()
	defer func() { _ = taken.Close() }()
	if _, err := io.WriteString(taken, "GET /kept HTTP/1.1\r\nHost: ebb.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if c, is := <-kept; is {
		defer func() { _ = c.Close() }()
	}
	if err := get(2 * time.Minute); err != nil {
		t.Errorf("beside one that was taken over: %v", err)
	}
}
