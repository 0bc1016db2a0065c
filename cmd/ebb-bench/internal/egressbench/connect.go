package egressbench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

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
func (x tunnelBox) tunnel(port string) connect {
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
