package egressbench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Sockets of the bare proxy in the directory of a benchmark.
const (
	bareSocket    = "bare.sock"
	bareTLSSocket = "bare-tls.sock"
)

// ServeBare is a proxy of net/http and httputil, configured as ebb does, that
// only sets one header: no checks, no log, no redaction. Its processor time is
// the part of ebb's that the standard library uses. address is the upstream.
// ServeBare calls ready when it listens, and serves until ctx is done.
func ServeBare(ctx context.Context, dir, address, secret string, ready func()) error {
	text, err1 := os.ReadFile(Certificate(dir))
	cert, err2 := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	clear, err3 := net.Listen("unix", filepath.Join(dir, bareSocket))
	secured, err4 := net.Listen("unix", filepath.Join(dir, bareTLSSocket))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	quiet := log.New(io.Discard, "", 0)
	upstream := &url.URL{Scheme: "https", Host: address}
	s := &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(upstream)
				r.Out.Host = Host
				r.Out.Header.Set("Authorization", "Bearer "+secret)
			},
			Transport: &http.Transport{
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: Host}, ForceAttemptHTTP2: true,
				DisableCompression: true, MaxIdleConnsPerHost: 128, ReadBufferSize: 64 << 10,
			},
			ErrorLog: quiet,
		},
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}, ReadHeaderTimeout: time.Minute, ErrorLog: quiet,
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	done := make(chan error, 2)
	go func() { done <- s.Serve(clear) }()
	go func() { done <- s.ServeTLS(secured, "", "") }()
	ready()
	err := <-done
	if _ = s.Close(); errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
