package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
)

// Config tells how to reach ebb.
type Config struct {
	// Issuer is ebb's public base URL, exactly as in its metadata. Proofs and
	// assertions contain it. Required.
	Issuer string
	// URL is the address to connect to when it differs from Issuer, such as a
	// port forward or an internal listener. "" = Issuer.
	URL string
	// Socket is the path of ebb's Unix socket. All calls use it, unencrypted, for
	// every scheme of Issuer; proofs still contain Issuer. It excludes
	// URL, and replaces the transport of HTTP for these calls.
	Socket string
	// HTTP is used but not modified. Its Timeout, if any, also limits long
	// polls and exports. Redirects are never followed. nil = a new client.
	HTTP *http.Client
	// Timeout limits one call, without the wait for an approval or for events.
	// 0 = 30 s.
	Timeout time.Duration
	// Now is the clock; nil = time.Now.
	Now func() time.Time
}

func newPeer(c Config) (*peer, error) {
	issuer, err := baseURL("issuer", c.Issuer)
	if err != nil {
		return nil, err
	}
	base := issuer
	if c.URL != "" {
		if base, err = baseURL("URL", c.URL); err != nil {
			return nil, err
		}
	}
	p := &peer{issuer: issuer, base: base, now: c.Now, timeout: c.Timeout}
	if p.now == nil {
		p.now = time.Now
	}
	if p.timeout <= 0 {
		p.timeout = 30 * time.Second
	}
	if c.HTTP != nil {
		p.http = *c.HTTP
	}
	p.outside = p.http.Transport
	if c.Socket != "" {
		if c.URL != "" {
			return nil, errors.New("client: set the URL or the socket of ebb, not both")
		}
		p.base = "http" + strings.TrimPrefix(strings.TrimPrefix(issuer, "https"), "http")
		p.http.Transport = overSocket(c.Socket)
	}
	// A redirect could send a token or a ticket to another server.
	p.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return p, nil
}

// overSocket connects to the socket for every address, never to a proxy.
func overSocket(path string) http.RoundTripper {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
		MaxIdleConns: 4, IdleConnTimeout: time.Minute,
	}
}

// baseURL returns raw without a trailing slash.
func baseURL(name, raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("client: the %s of ebb must be an absolute URL without user, query and fragment", name)
	}
	if err := secure(u); err != nil {
		return "", fmt.Errorf("client: the %s of ebb: %w", name, err)
	}
	return strings.TrimRight(raw, "/"), nil
}

// ErrPlain is wrapped when a credential would be sent unencrypted to another
// machine.
var ErrPlain = errors.New("plain http is allowed on loopback only; use https")

// secure returns an error unless the URL is https, or http to localhost or a loopback address.
func secure(u *url.URL) error {
	switch {
	case fetch.Secure(u):
		return nil
	case u.Scheme == "http":
		return ErrPlain
	}
	return errors.New("the scheme must be https")
}
