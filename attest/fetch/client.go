package fetch

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// NewClient is for libraries that ask by themselves, such as those of OpenID Connect:
// whatever they ask, every rule of a Place holds but that of where. Only the host of
// origin, which is the operator's text, may be an address written out: the others are
// what an answer said.
func NewClient(origin string, c Config) (*http.Client, error) {
	p, err := NewPlace(origin, c)
	if err != nil {
		return nil, err
	}
	cl := *p.client
	elsewhere := c.Transport
	if elsewhere == nil {
		elsewhere = transport(p.cfg, false)
	}
	cl.Transport = guarded{origin: p.url, here: p.client.Transport, elsewhere: elsewhere, max: p.cfg.MaxBytes}
	cl.Timeout = p.cfg.Timeout
	return &cl, nil
}

// guarded is the transport of such a client.
type guarded struct {
	origin          *url.URL
	here, elsewhere http.RoundTripper
	max             int64
}

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	rt := g.elsewhere
	if r.URL.Host == g.origin.Host {
		rt = g.here
	}
	if r.URL.Scheme != "https" && (r.URL.Scheme != "http" || r.URL.Host != g.origin.Host || g.origin.Scheme != "http") {
		return nil, fmt.Errorf("fetch: %s is not https; whoever sits in between could change the answer", r.URL.Redacted())
	}
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close()
		return nil, ErrRedirect
	}
	resp.Body = &bounded{resp.Body, g.max}
	return resp, nil
}

// bounded fails where a body is longer than may be, so that half of it is not the whole.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}
