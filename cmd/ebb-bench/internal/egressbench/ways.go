package egressbench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
)

// Names of ways.
const (
	wayStraight = "straight"
	wayUnix     = "nginx, unix"
	wayStream   = "nginx, unix, unbuffered"
	wayTCP      = "nginx, tcp"
	wayTLS      = "nginx, tls"
	wayTLS2     = "nginx, tls, h2"
	wayBare     = "net/http, unix"
	wayBareTLS  = "net/http, tls"
	wayBase     = "ebb, base url"
	wayMITM     = "ebb, connect"
	wayMITM2    = "ebb, connect, h2"
)

// way is a way from a client to the upstream.
type way struct {
	name    string
	url     *url.URL // scheme, host, and a prefix of the path at the upstream
	bearer  string   // credential that the client sends
	connect connect
	h2      bool
	large   bool  // only for large bodies
	pids    []int // processes of the proxy; none = no proxy
	note    string
}

// all returns all ways, through the endpoint of a task, the bare proxy and, if
// it runs, nginx.
func (b *run) all(t *task, n *nginx) []way {
	_, port, _ := net.SplitHostPort(b.Address)
	authority := net.JoinHostPort(Host, port)
	endpoint, ebb, bare := t.endpoints[0], []int{b.Server}, []int{b.Bare}
	at := func(scheme, path string) *url.URL { return &url.URL{Scheme: scheme, Host: authority, Path: path} }
	ways := []way{{name: wayStraight, url: at("https", ""), bearer: b.Secret, connect: secure("tcp", b.Address, b.Roots), note: "TLS, no proxy"}}
	if n != nil {
		// nginx replaces the client's credential, as ebb does.
		ways = append(ways,
			way{name: wayUnix, url: at("http", ""), bearer: t.placeholder, connect: plain("unix", n.unix), pids: n.pids, note: "adds the header, no log; TLS to the upstream, verified"},
			way{name: wayStream, url: at("http", ""), bearer: t.placeholder, connect: plain("unix", n.stream), pids: n.pids, large: true, note: "forwards data at once, as ebb does"},
			way{name: wayTCP, url: at("http", ""), bearer: t.placeholder, connect: plain("tcp", n.tcp), pids: n.pids, note: "the same"},
			way{name: wayTLS, url: at("https", ""), bearer: t.placeholder, connect: secure("unix", n.tls, b.Roots), pids: n.pids, note: "the same, TLS on both sides"},
			way{name: wayTLS2, url: at("https", ""), bearer: t.placeholder, connect: secure("unix", n.tls, b.Roots), h2: true, pids: n.pids, note: "the same, one connection"})
	}
	return append(ways,
		way{name: wayBare, url: at("http", ""), bearer: t.placeholder, connect: plain("unix", filepath.Join(b.Dir, bareSocket)), pids: bare, note: "Go's proxy, on which ebb is built; only adds the header"},
		way{name: wayBareTLS, url: at("https", ""), bearer: t.placeholder, connect: secure("unix", filepath.Join(b.Dir, bareTLSSocket), b.Roots), pids: bare, note: "the same, TLS on both sides"},
		way{name: wayBase, url: &url.URL{Scheme: "http", Host: "localhost", Path: "/to/" + authority}, bearer: t.placeholder, connect: plain("unix", endpoint.socket), pids: ebb, note: "every request is in the audit log before it is sent; the response is searched for the secret"},
		way{name: wayMITM, url: at("https", ""), bearer: t.placeholder, connect: endpoint.tunnel(port), pids: ebb, note: "the same, TLS on both sides"},
		way{name: wayMITM2, url: at("https", ""), bearer: t.placeholder, connect: endpoint.tunnel(port), h2: true, pids: ebb, note: "the same, one connection"})
}

// target returns the way for package load.
func (w way) target() load.Target {
	return load.Target{URL: w.url, Connect: func(ctx context.Context) (net.Conn, error) { return w.connect(ctx, "http/1.1") }}
}

// transport returns the way for net/http.
func (w way) transport() *http.Transport {
	protocol, protocols := "http/1.1", new(http.Protocols)
	protocols.SetHTTP1(!w.h2)
	protocols.SetHTTP2(w.h2)
	if w.h2 {
		protocol = "h2"
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return w.connect(ctx, protocol) }
	return &http.Transport{DialContext: dial, DialTLSContext: dial, Protocols: protocols, DisableCompression: true, ReadBufferSize: 64 << 10}
}

// request is a GET of a path at the upstream.
func (w way) request(ctx context.Context, path string) (*http.Request, error) {
	u := *w.url
	u.Path += path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+w.bearer)
	}
	return r, err
}

// connect opens a connection of a way. protocol is "http/1.1" or "h2", for ways
// with TLS.
type connect func(ctx context.Context, protocol string) (net.Conn, error)

var dialer = net.Dialer{Timeout: 5 * time.Second}

// plain is a connection without TLS.
func plain(network, address string) connect {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
}

// secure is a TLS connection for Host.
func secure(network, address string, roots *x509.CertPool) connect {
	return func(ctx context.Context, protocol string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return handshake(ctx, c, protocol, roots)
	}
}

// tunnel is a TLS connection for Host in a tunnel to the upstream's port,
// through the endpoint of a sandbox.
func (x tunnelEndpoint) tunnel(port string) connect {
	return func(ctx context.Context, protocol string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, "unix", x.socket)
		if err != nil {
			return nil, err
		}
		if err := established(c, net.JoinHostPort(Host, port)); err != nil {
			_ = c.Close()
			return nil, err
		}
		return handshake(ctx, c, protocol, x.roots)
	}
}

// opened is ebb's exact response to CONNECT.
const opened = "HTTP/1.1 200 Connection established\r\n\r\n"

func established(c net.Conn, authority string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", authority); err != nil {
		return err
	}
	answer := make([]byte, len(opened))
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if string(answer) != opened {
		return errors.New("ebb refused the tunnel to the upstream")
	}
	return nil
}

func handshake(ctx context.Context, c net.Conn, protocol string, roots *x509.CertPool) (net.Conn, error) {
	t := tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: Host, RootCAs: roots, NextProtos: []string{protocol}})
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return t, nil
}
