package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/web"
)

// listen creates the HTTP server and its listeners.
func (n *node) listen(ctx context.Context, s settings, h http.Handler) (err error) {
	n.server = web.NewServer(h, web.Limits{}, s.Log)
	if n.server.TLSConfig, err = serverTLS(s.TLS); err != nil {
		return err
	}
	requests, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	n.stop = func() { stop(web.ErrStopping) }
	n.server.BaseContext = func(net.Listener) context.Context { return requests }
	if n.listener == nil {
		if n.listener, err = web.ListenTCP(ctx, s.Listen); err != nil {
			return fail("listen: "+err.Error(), "stop the process that uses the address, or set listen (EBB_LISTEN)")
		}
	}
	n.listener = web.Capped(n.listener, web.Conns(0.5))
	if n.server.TLSConfig != nil {
		n.listener = tls.NewListener(n.listener, n.server.TLSConfig)
	}
	return n.openSocket(ctx, s.Config)
}

// openSocket also listens on the Unix socket. Its connections are not
// encrypted, because they do not leave the kernel, which also names the peer's
// process.
func (n *node) openSocket(ctx context.Context, c config.Config) error {
	if c.ListenUnix == "" {
		return nil
	}
	mode, err := strconv.ParseUint(c.ListenUnixMode, 8, 9)
	if err != nil {
		return fmt.Errorf("listen_unix_mode: %w", err)
	}
	if n.socket, err = web.ListenUnix(ctx, c.ListenUnix, fs.FileMode(mode)); err != nil {
		return fail("listen on the Unix socket: "+err.Error(), "stop the process that uses it, or set listen_unix (EBB_LISTEN_UNIX) to a path in a directory that only ebb's user can write to")
	}
	return nil
}

// address returns the public URL. A port chosen by the system is bound at once,
// because the URL contains it.
func (n *node) address(ctx context.Context, c config.Config) (string, error) {
	addr := c.Listen
	if _, port, err := net.SplitHostPort(c.Listen); err == nil && port == "0" {
		l, err := web.ListenTCP(ctx, c.Listen)
		if err != nil {
			return "", fail("listen: "+err.Error(), "set listen (EBB_LISTEN) to an address of this machine")
		}
		n.listener, addr = l, l.Addr().String()
	}
	if c.PublicURL != "" {
		return c.PublicURL, nil
	}
	if c.TLS.Cert != "" {
		return "https://" + addr, nil
	}
	return "http://" + addr, nil
}

// serverTLS returns the TLS configuration of the listener, nil without a
// certificate.
func serverTLS(c config.TLS) (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, usage("load the server certificate: "+err.Error(), "check tls.cert and tls.key")
	}
	t := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.ClientCerts == config.AnyClientCert {
		// The CAs that attestors fetch are not known here. TLS proves possession of
		// the certificate's key, and the attestor verifies the certificate. Tokens
		// bound to the certificate (RFC 8705) are bound to the key.
		t.ClientAuth = tls.RequestClientCert
		return t, nil
	}
	if c.ClientCA == "" {
		return t, nil
	}
	pem, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, usage("read tls.client_ca: "+err.Error(), "name a readable PEM file")
	}
	t.ClientCAs = x509.NewCertPool()
	if !t.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, usage("tls.client_ca contains no certificate", "name a PEM file with CERTIFICATE blocks")
	}
	t.ClientAuth = tls.VerifyClientCertIfGiven
	return t, nil
}
