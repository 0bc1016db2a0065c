package egressbench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Sockets of the bare proxy in the directory of a benchmark.
const (
	bareSocket    = "bare.sock"
	bareTLSSocket = "bare-tls.sock"
)

// ServeHeaderProxy is a proxy of net/http and httputil, configured as ebb does, that
// only sets one header: no checks, no log, no redaction. Its processor time is
// the part of ebb's that the standard library uses. address is the upstream.
// ServeHeaderProxy calls ready when it listens, and serves until ctx is done.
func ServeHeaderProxy(ctx context.Context, dir, address, secret string, ready func()) error {
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

// nginx is a running nginx, master and workers.
type nginx struct {
	unix, tcp, tls string // listeners
	stream         string // listener without buffering
	pids           []int
	child          *exec.Cmd
	ended          chan struct{}
}

// configuration makes nginx as fast as possible for the same work. It buffers
// responses in memory and never on disk (the last server does not buffer),
// keeps connections to the upstream open, and writes no log. %[1]s is the
// directory, %[2]s its TCP listener, %[3]s the upstream, %[4]s the host and
// %[5]s the secret.
const configuration = `daemon off;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.log;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; scgi_temp_path %[1]s/scgi; uwsgi_temp_path %[1]s/uwsgi;
  keepalive_requests 100000000;
  upstream there { server %[3]s; keepalive 128; keepalive_requests 100000000; }
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host %[4]s;
  proxy_set_header Authorization "Bearer %[5]s";
  proxy_ssl_server_name on; proxy_ssl_name %[4]s;
  proxy_ssl_verify on; proxy_ssl_trusted_certificate %[1]s/upstream.pem;
  proxy_ssl_protocols TLSv1.2 TLSv1.3;
  proxy_buffer_size 16k; proxy_buffers 16 64k; proxy_busy_buffers_size 256k; proxy_max_temp_file_size 0;
  server {
    listen unix:%[1]s/nginx.sock;
    listen %[2]s;
    listen unix:%[1]s/nginx-tls.sock ssl http2;
    ssl_certificate %[1]s/upstream.pem; ssl_certificate_key %[1]s/upstream.key;
    http2_max_concurrent_streams 512;
    location / { proxy_pass https://there; }
  }
  server {
    listen unix:%[1]s/nginx-stream.sock;
    location / { proxy_pass https://there; proxy_buffering off; }
  }
}
`

func startNginx(ctx context.Context, c Config) (*nginx, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free port
	if err != nil {
		return nil, err
	}
	n := &nginx{unix: filepath.Join(c.Dir, "nginx.sock"), tls: filepath.Join(c.Dir, "nginx-tls.sock"), stream: filepath.Join(c.Dir, "nginx-stream.sock"), tcp: l.Addr().String(), ended: make(chan struct{})}
	file := filepath.Join(c.Dir, "nginx.conf")
	err = errors.Join(l.Close(), os.WriteFile(file, fmt.Appendf(nil, configuration, c.Dir, n.tcp, c.Address, Host, c.Secret), 0o600))
	if err != nil {
		return nil, err
	}
	n.child = exec.Command(c.Nginx, "-e", filepath.Join(c.Dir, "nginx.log"), "-p", c.Dir, "-c", file)
	if err := n.child.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = n.child.Wait() // the reason is in its log
		close(n.ended)
	}()
	if err := n.await(ctx); err != nil {
		n.stop()
		text, _ := os.ReadFile(filepath.Join(c.Dir, "nginx.log"))
		return nil, fmt.Errorf("nginx did not start: %w: %s", err, strings.TrimSpace(string(text)))
	}
	return n, nil
}

// await waits until nginx accepts connections and its workers run.
func (n *nginx) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		c, err := dialer.DialContext(ctx, "tcp", n.tcp)
		if err == nil {
			_ = c.Close()
			workers, werr := childrenOf(n.child.Process.Pid)
			if err = werr; err == nil && len(workers) > 0 {
				n.pids = append(workers, n.child.Process.Pid)
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-n.ended:
			return errors.New("the process ended")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (n *nginx) stop() {
	_ = n.child.Process.Signal(syscall.SIGTERM)
	<-n.ended
}
