package egress_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
)

// newRecordsBed starts a bed whose upstream writes TLS records itself, after it has read the head of
// a request.
func newRecordsBed(t *testing.T, do func(*ratchet)) *bed {
	t.Helper()
	var keys attesttest.Log
	return newBed(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		raw := c.(*tls.Conn).NetConn().(*net.TCPConn)
		defer func() { _ = raw.Close() }()
		if err := raw.SetReadBuffer(4 << 10); err != nil { // a small buffer fills after few of ebb's writes
			t.Error(err)
		}
		all := keys.String()
		r, err := newRatchet(c.(*tls.Conn), all[strings.LastIndex(all, "SERVER_HANDSHAKE"):], "SERVER")
		if err != nil {
			t.Error(err)
			return
		}
		do(r)
	}, func(s *httptest.Server) {
		s.EnableHTTP2 = false
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, KeyLogWriter: &keys}
	})
}

// The alert no_application_protocol in place of a response does not make ebb send the request again.
func TestLateAlertOfAnUpstream(t *testing.T) {
	t.Parallel()
	b := newRecordsBed(t, func(r *ratchet) { _ = r.write(21, []byte{2, 120}) })
	x := b.sandbox(t)
	res, body := send(t, x.client(t, false), "POST", "https://"+b.host+"/v1/charges", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:write"))
	if got := b.arrived(); res.StatusCode != http.StatusBadGateway || len(got) != 1 {
		t.Errorf("%s %q after %d requests", res.Status, body, len(got))
	}
}

// A request ends when its sandbox disconnects, even if the upstream sends KeyUpdates between the parts
// of the response and does not read ebb's KeyUpdates.
func TestKeyUpdatesInAResponse(t *testing.T) {
	t.Parallel()
	stalled, over := make(chan bool, 1), make(chan bool)
	b := newRecordsBed(t, func(r *ratchet) {
		err := r.write(23, []byte("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"))
		for err == nil {
			_ = r.raw.SetWriteDeadline(time.Now().Add(3 * time.Second)) // there is no event for the time at which ebb stops reading
			for range 10 {
				err = r.update(1)
			}
			if err == nil {
				err = r.write(23, []byte("x"))
			}
		}
		stalled <- true
		<-over
	})
	defer close(over)
	x := b.sandbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, "GET", "https://"+b.host+"/v1/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read"))
	go func() {
		if res, err := x.client(t, false).Do(q); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}()
	<-stalled
	cancel()
	if end := b.over(t, x.s.Task.ID); !end.Cut {
		t.Errorf("the audit log has %+v", end)
	}
}
