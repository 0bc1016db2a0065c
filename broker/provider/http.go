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

// HTTP is how drivers call an API over HTTP.
type HTTP struct {
	// Roots are the certificate authorities to trust; nil = those of the system.
	Roots *x509.CertPool
	// Timeout bounds one call, answer included; 0 = 10 s. A provider that hangs
	// must not hold a worker longer.
	Timeout time.Duration
	// Certificate gives the client's certificate at each handshake; nil = none.
	Certificate func() (*tls.Certificate, error)
	// OneCall: no connection is used for a second call, so that each is a handshake of its own.
	OneCall bool
	// Direct: no proxy of the environment comes between (metadata servers).
	Direct bool
	// MaxAnswer bounds each answer's body, for libraries that read it themselves: one
	// that is longer ends in ErrTooLarge. 0 = who calls bounds it (ReadBody).
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
			// A connection of HTTP/2 whose peer is gone without a word would be used, and
			// time out, until TCP gives it up after a quarter of an hour.
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: timeout, PingTimeout: timeout},
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	if h.MaxAnswer > 0 {
		c.Transport = bounded{c.Transport, h.MaxAnswer}
	}
	return c
}

// notByTLS refuses a proxy that is reached by TLS: net/http takes one configuration for it and for the
// API, so that a proxy that asks would be shown the certificate that is for the API.
func notByTLS(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if proxy == nil {
		return nil
	}
	return func(r *http.Request) (*url.URL, error) {
		u, err := proxy(r)
		if err == nil && u != nil && u.Scheme == "https" {
			return nil, errors.New("a proxy by https would be shown the client certificate: name one by http, or none (NO_PROXY)")
		}
		return u, err
	}
}

// Roots reads certificate authorities from a PEM file; "" gives nil, which stands
// for those of the system.
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
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}

// ErrTooLarge is returned by ReadBody.
var ErrTooLarge = errors.New("the answer is larger than any that is expected")

// ReadBody reads an answer of at most limit bytes and closes it. A body that ends
// before its announced length is an error, so that half an answer is never taken
// for a whole one.
func ReadBody(r *http.Response, limit int64) ([]byte, error) {
	defer r.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if int64(len(b)) > limit {
		return nil, ErrTooLarge
	}
	return b, nil
}

// maxWait bounds the wait that a Retry-After header can ask for. Without the bound, an absurd
// value could delay a revocation indefinitely.
const maxWait = time.Hour

// Busy is the error of an answer that limits the rate: as long as it says, else as
// long as otherwise.
func Busy(h http.Header, now time.Time, otherwise time.Duration, cause error) error {
	after, told := RetryAfter(h, now)
	if !told {
		after = otherwise
	}
	return &BusyError{After: after, Cause: cause}
}

// RetryAfter reads the header of RFC 9110 section 10.2.3, in seconds or as a date,
// and bounds it to 1 s .. 1 h. ok is false without a usable one.
func RetryAfter(h http.Header, now time.Time) (d time.Duration, ok bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(v, 10, 32); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(v); err == nil {
		d = t.Sub(now)
	} else {
		return 0, false
	}
	return min(max(d, time.Second), maxWait), true
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
