package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// NewClient returns a client for libraries that send their own requests, such as those of
// OpenID Connect. The rules of a Place apply to every request, except that the library
// chooses the URL. Only the host of origin, which the operator wrote, may be an IP address
// of a private or special range; other hosts come from responses.
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
		return nil, fmt.Errorf("fetch: %s is not https, so an attacker on the network could change the response; write the URL with https", r.URL.Redacted())
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

// bounded returns an error when a body exceeds its limit, so that a truncated body is never
// treated as complete.
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

// ErrPrivate means that a name resolved to an address that is not public.
var ErrPrivate = errors.New("fetch: the name resolves to a private or special address; if that is intended, allow it with allow_private_addresses")

// special are the special ranges, beyond the ones that net/netip knows (RFC 6890 and
// successors), in which there are no public key servers.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network
	netip.MustParsePrefix("100.64.0.0/10"),    // carrier-grade NAT, and the metadata service of some clouds
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("168.63.129.16/32"), // Azure: the host of the virtual machine
	netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relays
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, broadcast
	netip.MustParsePrefix("2001::/23"),        // protocol assignments, Teredo
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("3fff::/20"),        // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4, which contains an IPv4 address
}

// global is the part of IPv6 that is assigned for public use (RFC 4291, section 2.4). All
// forms of NAT64 and of embedded IPv4 addresses are outside of it.
var global = netip.MustParsePrefix("2000::/3")

// Public reports whether an address belongs to the public internet.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.Is6() && !global.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return !isatap(a)
}

// isatap reports whether an address ends with an embedded IPv4 address in the form of
// ISATAP, which may follow any prefix (RFC 5214 section 6.1).
func isatap(a netip.Addr) bool {
	b := a.As16()
	return a.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// onlyPublic checks the address that is actually dialled, after DNS, so that a second DNS
// response cannot differ from the checked one.
func onlyPublic(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("fetch: dial: %w", err)
	}
	if !Public(ap.Addr()) {
		return ErrPrivate
	}
	return nil
}

// Dial connects to host:port, which the operator wrote, with the rule on addresses of every
// Place. It is for protocols other than HTTP and uses no proxy.
func Dial(ctx context.Context, address string, c Config) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("fetch: dial: %w", err)
	}
	d := &net.Dialer{Timeout: c.Timeout}
	if !c.Private && !addressed(host) {
		d.Control = onlyPublic
	}
	return d.DialContext(ctx, "tcp", address)
}

// transport returns a transport for one Place. Places do not share connections, so that a
// slow one does not affect another.
func transport(c Config, addressed bool) http.RoundTripper {
	base := &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12,
			// VerifyConnection also runs on a resumed session, unlike VerifyPeerCertificate.
			InsecureSkipVerify: c.Authenticate != nil, VerifyConnection: c.Authenticate, //nolint:gosec // G402: Authenticate takes its place
		},
		TLSHandshakeTimeout:    c.Timeout,
		ResponseHeaderTimeout:  c.Timeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    4,
		// Unauthenticated callers cause requests. When the server is slow, these must not
		// use up the file descriptors of the process: further requests wait, for at most
		// Timeout.
		MaxConnsPerHost:   64,
		IdleConnTimeout:   90 * time.Second,
		ForceAttemptHTTP2: true,
		// Without pings, an HTTP/2 connection whose peer has disappeared would be used, and
		// every request on it would time out, until TCP gives it up after 15 minutes.
		HTTP2: &http.HTTP2Config{SendPingTimeout: c.Timeout, PingTimeout: c.Timeout},
	}
	direct := base.Clone()
	d := &net.Dialer{Timeout: c.Timeout}
	if !c.Private && !addressed {
		d.Control = onlyPublic
	}
	direct.DialContext = d.DialContext
	proxied := base.Clone()
	proxied.Proxy = http.ProxyFromEnvironment
	return byProxy{direct: direct, proxied: proxied}
}

// byProxy sends a request through the proxy that the environment names for it, if any. The
// dialled address is then that of the proxy, so the rule on addresses does not apply.
type byProxy struct{ direct, proxied http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b byProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if u, err := http.ProxyFromEnvironment(r); err != nil || u != nil {
		return b.proxied.RoundTrip(r)
	}
	return b.direct.RoundTrip(r)
}

// addressed reports whether a URL's host is an IP address or localhost.
func addressed(host string) bool {
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}

// Answer is the response of a Place.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// MaxAge is the lifetime that the origin states (RFC 9111, section 5.2.2.1). It is 0
	// without one and for responses that must not be cached.
	MaxAge time.Duration
}

func maxAge(cacheControl string) time.Duration {
	var age time.Duration
	for d := range strings.SplitSeq(strings.ToLower(cacheControl), ",") {
		d = strings.TrimSpace(d)
		if d == "no-store" || d == "no-cache" {
			return 0
		}
		if v, found := strings.CutPrefix(d, "max-age="); found {
			if n, err := strconv.ParseUint(v, 10, 31); err == nil {
				age = time.Duration(n) * time.Second
			}
		}
	}
	return age
}
