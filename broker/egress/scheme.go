package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
)

// tellScheme has the requests of HTTP/2 that s serves say whether their :scheme is https (otherScheme). net/http
// marks the others by TLS = nil, and fills that in before a handler sees it.
func tellScheme(s *http.Server) {
	_ = s.Serve(noListener{}) // which makes TLSNextProto
	serve := s.TLSNextProto["h2"]
	s.TLSNextProto["h2"] = func(s *http.Server, c *tls.Conn, h http.Handler) { serve(s, c, schemed{h}) }
}

type schemed struct{ http.Handler }

type schemeKey struct{}

// ServeHTTP implements http.Handler.
func (h schemed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil {
		r = r.WithContext(context.WithValue(r.Context(), schemeKey{}, true))
	}
	h.Handler.ServeHTTP(w, r)
}

// BaseContext is what net/http asks its own handler for.
func (h schemed) BaseContext() context.Context {
	return h.Handler.(interface{ BaseContext() context.Context }).BaseContext()
}

// otherScheme reports whether the :scheme of a request of HTTP/2 is not https.
func otherScheme(r *http.Request) bool { return r.Context().Value(schemeKey{}) != nil }

// noListener has nothing to accept.
type noListener struct{}

// Accept implements net.Listener.
func (noListener) Accept() (net.Conn, error) { return nil, errors.New("there is nothing to accept") }

// Close implements net.Listener.
func (noListener) Close() error { return nil }

// Addr implements net.Listener.
func (noListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "none"} }
