package egress_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// A request goes to the upstream in the version of HTTP in which it arrived, if the upstream supports
// that version.
func TestVersions(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		upstream func(*httptest.Server)
		want     map[bool]string // by whether it arrives over HTTP/2
	}{
		"both":          {func(*httptest.Server) {}, map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}},
		"only HTTP/1.1": {http1Only, map[bool]string{false: "HTTP/1.1", true: "HTTP/1.1"}},
		"only HTTP/2": {func(s *httptest.Server) {
			s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				only := s.TLS.Clone()
				only.GetConfigForClient = nil
				// A crypto/tls server that offers only h2 accepts a client that offers only http/1.1. With the
				// name "other" it sends the alert no_application_protocol.
				if only.NextProtos = []string{"h2"}; len(hello.SupportedProtos) == 1 {
					only.NextProtos = []string{"other"}
				}
				return only, nil
			}}
		}, map[bool]string{false: "HTTP/2.0", true: "HTTP/2.0"}},
	} {
		b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Proto+string(text))
		}, x.upstream)
		box := b.sandbox(t)
		auth := "Bearer " + box.placeholder(t, "stripe:charges:write")
		for h2, want := range x.want {
			for range 2 {
				if res, got := send(t, box.client(t, h2), "POST", "https://"+b.host+"/v1/charges", " body", "Authorization", auth); res.StatusCode != http.StatusOK || got != want+" body" {
					t.Errorf("%s, arrived over HTTP/2 %t: %d %s, want %s", name, h2, res.StatusCode, got, want)
				}
			}
		}
	}
}

// Beyond 16 requests at a time over HTTP/1.1, such as event streams, requests share a connection to the
// upstream.
func TestSharedUpstreamConnection(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	var mu sync.Mutex
	seen, conns := map[string]int{}, map[string]bool{}
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		mu.Lock()
		seen[r.Proto]++
		conns[r.RemoteAddr] = true
		mu.Unlock()
		<-release
	}, func(*httptest.Server) {})
	x := b.sandbox(t)
	auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
	c := x.client(t, false)
	var streams []*http.Response
	for range 40 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+b.host+"/v1/charges", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", auth)
		res, err := c.Do(r)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		streams = append(streams, res)
	}
	mu.Lock()
	if seen["HTTP/1.1"] != 16 || seen["HTTP/2.0"] != 24 || len(conns) != 17 {
		t.Errorf("%v over %d connections", seen, len(conns))
	}
	mu.Unlock()
	close(release)
	for _, res := range streams {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}
