package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxBody is the largest answer that is read.
const maxBody = 1 << 20

// Target is a server under load.
type Target struct {
	URL *url.URL    // scheme, host and port
	TLS *tls.Config // nil = the system's roots
}

// Addr is host:port.
func (t Target) Addr() string {
	port := t.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.URL.Scheme]
	}
	return net.JoinHostPort(t.URL.Hostname(), port)
}

// Conn is one keep-alive connection. It is not safe for concurrent use.
type Conn struct {
	c net.Conn
	r *bufio.Reader
}

// Dial opens a connection.
func (t Target) Dial(ctx context.Context) (*Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	var c net.Conn
	var err error
	if t.URL.Scheme == "https" {
		c, err = (&tls.Dialer{NetDialer: &d, Config: t.TLS}).DialContext(ctx, "tcp", t.Addr())
	} else {
		c, err = d.DialContext(ctx, "tcp", t.Addr())
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", t.Addr(), err)
	}
	return &Conn{c: c, r: bufio.NewReaderSize(c, 16<<10)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Do sends one request and reads its answer into buf, which it returns grown.
func (c *Conn) Do(request []byte, buf []byte) (status int, body []byte, err error) {
	if err := c.c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, buf, err
	}
	if _, err := c.c.Write(request); err != nil {
		return 0, buf, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, buf, err
	}
	defer resp.Body.Close()
	body, err = readAll(resp.Body, buf[:0])
	if err == nil && resp.Close {
		err = errors.New("the server closes connections; the figures would be of connecting")
	}
	return resp.StatusCode, body, err
}

func readAll(r io.Reader, buf []byte) ([]byte, error) {
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, err
		case len(buf) > maxBody:
			return buf, errors.New("the answer is too large")
		}
	}
}
