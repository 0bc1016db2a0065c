package egress_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress"
)

// The end of a lease disconnects everything that depends on it, and nothing else in the sandbox.
//
//ebb:invariant I2 The end of a lease disconnects the egress streams that use that lease
func TestEndOfALease(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "data: tick\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
	})
	x := b.sandbox(t)
	open := func() (id string, stream io.Reader) {
		p := x.placeholder(t, "stripe:charges:read")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.host+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p)
		res, err := x.client(t, true).Do(r)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return strings.TrimPrefix(p, egress.Prefix), res.Body
	}
	one, first := open()
	_, second := open()
	if n := b.proxy.End(one); n != 1 {
		t.Errorf("%d were cut", n)
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, first)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("it ended as if all had come")
		}
	case <-time.After(patience):
		t.Fatal("it was not disconnected")
	}
	if _, err := io.ReadFull(second, make([]byte, 1000)); err != nil {
		t.Errorf("another lease of the sandbox: %v", err)
	}
}

// E100: idle connections with a credential are closed with it: state that an upstream keeps for a
// connection does not outlive the task.
//
//ebb:invariant I2 The end of a task or lease closes idle upstream connections that carried its credential
func TestEndClosesIdleConnections(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	b := newBed(t, echo, func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed, http.StateHijacked:
				open.Add(-1)
			}
		}
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:read")
	if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK || open.Load() != 1 {
		t.Fatal(res.Status, body, open.Load())
	}
	b.proxy.End(x.s.Task.ID)
	until(t, "no connection is left", func() bool { return open.Load() == 0 })
}
