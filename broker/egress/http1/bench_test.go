package http1_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkRoundTrip compares the client with http.Transport, over TLS to the same upstream.
func BenchmarkRoundTrip(b *testing.B) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1024)) }))
	defer s.Close()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = "example.com", []string{"http/1.1"}
	mine := (&script{l: s.Listener}).clientTLS(config)
	defer mine.CloseIdleConnections()
	theirs := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return mine.Dial(ctx) }}
	defer theirs.CloseIdleConnections()
	for _, x := range []struct {
		name string
		r    http.RoundTripper
	}{{"client", mine}, {"transport", theirs}} {
		b.Run(x.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					q, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://example.com/", nil)
					res, err := x.r.RoundTrip(q)
					if err != nil {
						b.Error(err)
						return
					}
					_, err = io.Copy(io.Discard, res.Body)
					if err = errors.Join(err, res.Body.Close()); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
