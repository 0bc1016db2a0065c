package fetch

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"
)

// transport is one of the place's own: what one place does to its connections is
// nothing to another.
func transport(c Config, addressed bool) http.RoundTripper {
	base := &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs: c.RootCAs, MinVersion: tls.VersionTLS12,
			// What VerifyConnection refuses is refused, also on a resumed session.
			InsecureSkipVerify: c.Authenticate != nil, VerifyConnection: c.Authenticate, //nolint:gosec // G402: Authenticate takes its place
		},
		TLSHandshakeTimeout:    c.Timeout,
		ResponseHeaderTimeout:  c.Timeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    4,
		// Strangers cause requests. When the place is slow they must not take every
		// descriptor of the process: what is beyond waits, as long as Timeout.
		MaxConnsPerHost:   64,
		IdleConnTimeout:   90 * time.Second,
		ForceAttemptHTTP2: true,
		// A connection of HTTP/2 whose peer is gone without a word would be used, and
		// time out, until TCP gives it up after a quarter of an hour.
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

// byProxy sends a request through the proxy that the environment names for it,
// if any: then it is the proxy's address that is dialled.
type byProxy struct{ direct, proxied http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b byProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if u, err := http.ProxyFromEnvironment(r); err != nil || u != nil {
		return b.proxied.RoundTrip(r)
	}
	return b.direct.RoundTrip(r)
}

// addressed reports whether a URL's host is an address by itself, or localhost.
func addressed(host string) bool {
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}
