package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ebb/broker"
	"ebb/web"
)

func TestServerHasEveryLimit(t *testing.T) {
	t.Parallel()
	s := web.NewServer(http.NotFoundHandler(), web.Limits{}, nil)
	if s.ReadTimeout != 15*time.Second || s.WriteTimeout != 30*time.Second || s.IdleTimeout != 2*time.Minute || s.HTTP2.MaxConcurrentStreams != 128 {
		t.Errorf("got read %s, write %s, idle %s, %d streams", s.ReadTimeout, s.WriteTimeout, s.IdleTimeout, s.HTTP2.MaxConcurrentStreams)
	}
}

// A system that allows any number of descriptors does not make ebb take any number
// of connections.
func TestConnsAreBounded(t *testing.T) {
	t.Parallel()
	if n := web.Conns(1e12); n != 1<<16 {
		t.Errorf("got %d", n)
	}
	if n := web.Conns(0); n != 16 {
		t.Errorf("got %d", n)
	}
}

// What a caller named is repeated to it, but not at any length.
func TestDecodeErrorsAreShort(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"`+strings.Repeat("a", 5000)+`":1}`))
	r.Header.Set("Content-Type", "application/json")
	_, err := web.Decode[struct{}](r, 64<<10)
	if err == nil || len(broker.AsError(err).Public) > 200 {
		t.Errorf("got %.300v", err)
	}
}
