package provider

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// HTTP is the configuration of a driver's HTTP client.
type HTTP struct {
	// Roots are the trusted certificate authorities; nil means those of the system.
	Roots *x509.CertPool
	// Timeout bounds one call, response included; 0 means 10 s. It keeps a provider that
	// does not respond from blocking a worker.
	Timeout time.Duration
	// Certificate returns the client certificate for each handshake; nil for none.
	Certificate func() (*tls.Certificate, error)
	// OneCall uses each connection for one call only, so that each call has its own
	// handshake.
	OneCall bool
	// Direct ignores the proxy of the environment (for metadata servers).
	Direct bool
	// MaxAnswer bounds the body of each response, for libraries that read it themselves:
	// reading a longer one returns ErrTooLarge. With 0 the caller bounds it (ReadBody).
	MaxAnswer int64
}

// Client returns a client that follows no redirects, because a credential must not go to a host
// that another server names. It sends no cookies and has a timeout.
func (h HTTP) Client() *http.Client {
	timeout := h.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	proxy := http.ProxyFromEnvironment
	if h.Direct {
		proxy = nil
	}
	tlsConfig := &tls.Config{RootCAs: h.Roots, MinVersion: tls.VersionTLS12}
	if h.Certificate != nil {
		proxy = notByTLS(proxy)
		tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return h.Certificate() }
	}
	c := &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                 proxy,
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:       tlsConfig,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: timeout,
			DisableKeepAlives:     h.OneCall,
			MaxIdleConns:          64,
			MaxIdleConnsPerHost:   32,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
			// Without pings, an HTTP/2 connection whose peer has disappeared would be used,
			// and every request on it would time out, until TCP gives it up after 15
			// minutes.
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: timeout, PingTimeout: timeout},
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	if h.MaxAnswer > 0 {
		c.Transport = bounded{c.Transport, h.MaxAnswer}
	}
	return c
}

// notByTLS refuses a proxy that is reached by TLS. net/http uses one TLS configuration for
// the proxy and the API, so a proxy that requests a client certificate would receive the one
// for the API.
func notByTLS(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if proxy == nil {
		return nil
	}
	return func(r *http.Request) (*url.URL, error) {
		u, err := proxy(r)
		if err == nil && u != nil && u.Scheme == "https" {
			return nil, errors.New("an https proxy would receive the client certificate: use an http proxy, or none (NO_PROXY)")
		}
		return u, err
	}
}

// Roots reads certificate authorities from a PEM file; "" returns nil, which means those of
// the system.
func Roots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nil means the system's
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator's own configuration names it
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s contains no certificate in PEM", path)
	}
	return pool, nil
}

// ErrTooLarge is returned by ReadBody.
var ErrTooLarge = errors.New("the response is larger than the limit")

// ReadBody reads a response body of at most limit bytes and closes it. A body that ends
// before its announced length is an error, so that an incomplete response is never treated
// as complete.
func ReadBody(r *http.Response, limit int64) ([]byte, error) {
	defer r.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	if int64(len(b)) > limit {
		return nil, ErrTooLarge
	}
	return b, nil
}

// MaxWait bounds the wait that a provider can ask for. Without the bound, an absurd
// value could delay a revocation indefinitely.
const MaxWait = time.Hour

// Busy returns the error for a response that limits the rate. The wait is that of
// Retry-After, else otherwise.
func Busy(h http.Header, now time.Time, otherwise time.Duration, cause error) error {
	after, told := RetryAfter(h, now)
	if !told {
		after = otherwise
	}
	return &BusyError{After: after, Cause: cause}
}

// RetryAfter parses the header of RFC 9110 section 10.2.3, in seconds or as a date, and
// limits it to 1 s to 1 h. ok is false without a valid one.
func RetryAfter(h http.Header, now time.Time) (d time.Duration, ok bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(v, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(v); err == nil {
		d = t.Sub(now)
	} else {
		return 0, false
	}
	return min(max(d, time.Second), MaxWait), true
}

// bounded returns an error for a response body over the limit; it never returns a shortened body.
// It is for libraries that read bodies themselves. Other code uses ReadBody.
type bounded struct {
	http.RoundTripper
	most int64
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, b.most}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}
