package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Config configures the requests to a Place. The zero Config is suitable for public origins.
type Config struct {
	// Private allows host names that resolve to private and other special addresses.
	Private bool `json:"allow_private_addresses"`
	// RootCAs replaces the system's roots; nil means the system's roots.
	RootCAs *x509.CertPool `json:"-"`
	// Authenticate, when set, authenticates the server instead of RootCAs and the host name,
	// for identities that are not host names, such as SPIFFE IDs. It checks
	// state.PeerCertificates. The server has proved possession of the leaf's key.
	Authenticate func(state tls.ConnectionState) error `json:"-"`
	// Timeout is the timeout of one request, response included. Default 5 s.
	Timeout time.Duration `json:"-"`
	// MaxBytes is the maximum size of one response body in bytes. Default 1 MiB.
	MaxBytes int64 `json:"-"`
	// Transport replaces the package's transport, and with it the rule on addresses. nil
	// means the package's transport.
	Transport http.RoundTripper `json:"-"`
	// Observe is called after every request; it may be nil.
	Observe func(Event) `json:"-"`
}

// Event describes one request, for metrics. Place is from configuration.
type Event struct {
	Place string
	Took  time.Duration
	// Status is the status of the response, 0 without a response.
	Status int
}

// Place is one configured URL. It is safe for concurrent use.
type Place struct {
	url     *url.URL
	cfg     Config
	client  *http.Client
	written string
}

// NewPlace returns a Place for an absolute URL without user information and fragment. The
// scheme must be https, or http on a loopback address.
func NewPlace(text string, c Config) (*Place, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errors.New("fetch: the text is not an absolute URL; write it like https://issuer.example/keys")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("fetch: write the URL without user information and fragment")
	case !Secure(u):
		return nil, fmt.Errorf("fetch: %s is not https, so an attacker on the network could change the response; write the URL with https", u.Redacted())
	}
	if c.Authenticate != nil && (u.Scheme != "https" || c.Transport != nil) {
		return nil, fmt.Errorf("fetch: %s cannot be authenticated: it must be https", u.Redacted())
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 1 << 20
	}
	rt := c.Transport
	if rt == nil {
		rt = transport(c, addressed(u.Hostname()))
	}
	return &Place{url: u, cfg: c, written: u.String(), client: &http.Client{
		Transport: rt,
		// The destination is configuration. With redirects, the origin or an attacker could
		// choose another one and receive what the request contains.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Secure reports whether requests to a URL are protected from the network (RFC 9700 section 2.6): the
// scheme is https, or http to localhost or a loopback address.
func Secure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && Loopback(u.Hostname())
}

// Loopback reports whether a host name or address refers to this machine. The name localhost
// counts as this machine (RFC 6761 section 6.3).
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// String returns the URL as configured.
func (p *Place) String() string { return p.written }

// Request is one request to a Place.
type Request struct {
	// Method is the HTTP method, default GET.
	Method string
	// Below are path segments to append to the Place's URL, unescaped. None may be empty,
	// "." or "..".
	Below []string
	// Query is added to the query of the Place's URL.
	Query url.Values
	// Header is sent unchanged. Body may be nil.
	Header http.Header
	Body   []byte
}

var (
	// ErrRedirect means that the server answered with a redirect, which is not followed.
	ErrRedirect = errors.New("fetch: the server answered with a redirect, and redirects are not followed; configure the URL that it redirects to")
	// ErrTooLarge means that a response or file was larger than its limit.
	ErrTooLarge = errors.New("fetch: the content is larger than the limit")
)

// Do sends one request. A redirect is an error; every other status is an Answer.
func (p *Place) Do(ctx context.Context, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	req, err := p.request(ctx, r)
	if err != nil {
		return Answer{}, err
	}
	start := time.Now()
	a, err := p.do(req)
	if p.cfg.Observe != nil {
		p.cfg.Observe(Event{Place: p.written, Took: time.Since(start), Status: a.Status})
	}
	if err != nil {
		return Answer{}, fmt.Errorf("fetch %s: %w", p.written, unwrapURL(err))
	}
	return a, nil
}

// Get sends a GET to the Place's own URL. Every status other than 200 is an error.
func (p *Place) Get(ctx context.Context, accept string) (Answer, error) {
	a, err := p.Do(ctx, Request{Header: http.Header{"Accept": {accept}}})
	if err == nil && a.Status != http.StatusOK {
		return Answer{}, fmt.Errorf("fetch %s: status %d", p.written, a.Status)
	}
	return a, err
}

func (p *Place) request(ctx context.Context, r Request) (*http.Request, error) {
	u := *p.url
	if len(r.Below) > 0 {
		for _, s := range r.Below {
			if s == "" || s == "." || s == ".." {
				return nil, errors.New("fetch: a path segment is empty, \".\" or \"..\"")
			}
		}
		u = *u.JoinPath(escape(r.Below)...)
	}
	if len(r.Query) > 0 {
		q := u.Query()
		for name, values := range r.Query {
			q[name] = values
		}
		u.RawQuery = q.Encode()
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", p.written, unwrapURL(err))
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	return req, nil
}

func escape(segments []string) []string {
	out := make([]string, len(segments))
	for i, s := range segments {
		out[i] = url.PathEscape(s)
	}
	return out
}

func (p *Place) do(req *http.Request) (Answer, error) {
	resp, err := p.client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // read-only body
	a := Answer{Status: resp.StatusCode, Header: resp.Header, MaxAge: maxAge(resp.Header.Get("Cache-Control"))}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return a, ErrRedirect
	}
	a.Body, err = io.ReadAll(io.LimitReader(resp.Body, p.cfg.MaxBytes+1))
	if err == nil && int64(len(a.Body)) > p.cfg.MaxBytes {
		err = ErrTooLarge
	}
	return a, err
}

// unwrapURL removes the URL from an error, because its query may contain a secret.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// ReadFile reads a file of at most limit bytes.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only file
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: %w", name, ErrTooLarge)
	}
	return b, err
}

// maxCertificates is the maximum size of a certificate file in bytes.
const maxCertificates = 1 << 20

// ReadCertificates reads a PEM file of at least one certificate and nothing else. A private
// key in the file is refused, because it is a mistake of the operator. usable returns an
// error for a certificate that the caller cannot use. Errors name the file.
func ReadCertificates(name string, usable func(*x509.Certificate) error) ([]*x509.Certificate, error) {
	b, err := ReadFile(name, maxCertificates)
	if err != nil {
		return nil, err
	}
	out, err := parseCertificates(b, usable)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func parseCertificates(b []byte, usable func(*x509.Certificate) error) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			break
		}
		b = rest
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("contains a PEM block of type %q; keep only certificates in this file", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if err := usable(c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 || bytes.Contains(b, []byte("-----BEGIN")) {
		return nil, errors.New("contains no PEM certificate, or an incomplete one")
	}
	return out, nil
}
