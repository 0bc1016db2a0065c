package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"time"
)

// Target is a server under load.
type Target struct {
	URL *url.URL    // scheme, host and port
	TLS *tls.Config // nil = the system's roots
	// Connect opens a connection that is ready for HTTP, such as through a
	// proxy or to a Unix socket. nil = to URL, by TCP and, for https, TLS.
	Connect func(context.Context) (net.Conn, error)
}

// Addr returns host:port.
func (t Target) Addr() string {
	port := t.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.URL.Scheme]
	}
	return net.JoinHostPort(t.URL.Hostname(), port)
}

// Conn is one keep-alive connection. It is not safe for concurrent use.
type Conn struct {
	c  net.Conn
	in answers
}

// Dial opens a connection with a deadline after life, so that a server that
// does not respond cannot block a run.
func (t Target) Dial(ctx context.Context, life time.Duration) (*Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	var c net.Conn
	var err error
	switch {
	case t.Connect != nil:
		c, err = t.Connect(ctx)
	case t.URL.Scheme == "https":
		c, err = (&tls.Dialer{NetDialer: &d, Config: t.TLS}).DialContext(ctx, "tcp", t.Addr())
	default:
		c, err = d.DialContext(ctx, "tcp", t.Addr())
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", t.Addr(), err)
	}
	// One deadline for all requests: setting a deadline costs more than reading
	// a response.
	if err := c.SetDeadline(time.Now().Add(life)); err != nil {
		_ = c.Close()
		return nil, err
	}
	return &Conn{c: c, in: answers{r: c, buf: make([]byte, 8<<10)}}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Do sends one request made by Build and reads its response. The body is valid
// until the next call. After an error the connection cannot be used again.
func (c *Conn) Do(request []byte) (status int, body []byte, err error) {
	if _, err := c.c.Write(request); err != nil {
		return 0, nil, err
	}
	return c.in.next()
}
