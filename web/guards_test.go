package web_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

func TestServerHasEveryLimit(t *testing.T) {
	t.Parallel()
	s := web.NewServer(http.NotFoundHandler(), web.Limits{}, nil)
	if s.ReadTimeout != 15*time.Second || s.WriteTimeout != 30*time.Second || s.IdleTimeout != 2*time.Minute || s.HTTP2.MaxConcurrentStreams != 128 {
		t.Errorf("got read %s, write %s, idle %s, %d streams", s.ReadTimeout, s.WriteTimeout, s.IdleTimeout, s.HTTP2.MaxConcurrentStreams)
	}
}

// The number of connections is limited even if the system allows any number of
// descriptors.
func TestConnsAreBounded(t *testing.T) {
	t.Parallel()
	if n := web.Conns(1e12); n != 1<<16 {
		t.Errorf("got %d", n)
	}
	if n := web.Conns(0); n != 16 {
		t.Errorf("got %d", n)
	}
}

// Names sent by a caller are repeated in the error with a limited length.
func TestDecodeErrorsAreShort(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"`+strings.Repeat("a", 5000)+`":1}`))
	r.Header.Set("Content-Type", "application/json")
	_, err := web.Decode[struct{}](r, 64<<10)
	if err == nil || len(broker.AsError(err).Public) > 200 {
		t.Errorf("got %.300v", err)
	}
}

// A request with Content-Length and Transfer-Encoding may be request smuggling:
// nothing after it is read (RFC 9112 section 6.1).
//
//ebb:invariant I2 The API closes the connection after a request that has both Content-Length and Transfer-Encoding
func TestRequestsWithTwoLengthsEndTheirConnection(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	s := web.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		_, _ = io.Copy(w, r.Body)
	}), web.Limits{}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer s.Close() //nolint:errcheck // of a test
	const behind = "GET /behind HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, c := range map[string]struct {
		head  string
		reads int32 // requests
	}{
		"both lengths":      {"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", 1},
		"both, other order": {"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", 1},
		"chunked":           {"Transfer-Encoding: Chunked\r\n", 1},
		"Content-Length":    {"Content-Length: 5\r\n", 2},
	} {
		seen.Store(0)
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		text := "POST / HTTP/1.1\r\nHost: localhost\r\n" + c.head + "\r\n0\r\n\r\n" + behind
		if c.reads == 2 {
			text = strings.Replace(text, behind, strings.Replace(behind, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1), 1)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		answers, err := io.ReadAll(conn) // until ebb closes it
		_ = conn.Close()
		if err != nil || !strings.Contains(string(answers), "Connection: close") || seen.Load() != c.reads {
			t.Errorf("%s: %d requests were read, want %d; %v\n%s", name, seen.Load(), c.reads, err, answers)
		}
	}
}
