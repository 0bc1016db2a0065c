package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Client sends requests to one upstream. A connection carries one request at a time, and another one
// after the response was read to its end. All methods may be called by several goroutines at once.
type Client struct {
	// Dial opens a connection, and does the TLS handshake if the upstream uses TLS. A connection above
	// another one returns that one from NetConn, as [crypto/tls.Conn] does.
	Dial func(ctx context.Context) (net.Conn, error)
	// MaxConns is the maximum number of open connections, in use or not.
	MaxConns int
	// IdleTime is the time for which an unused connection is kept for later requests.
	IdleTime time.Duration
	// MaxHead is the maximum size in bytes of the head of a response, together with the interim
	// responses (1xx) before it.
	MaxHead int64

	open atomic.Int32 // connections
	mu   sync.Mutex
	idle []*conn // the most recently used one is the last
}

// ErrMaxConns is returned by RoundTrip if MaxConns connections carry requests. The caller may
// send the request by another client: its body was neither read nor closed, and RoundTrip has sent it
// before only if it may be repeated (no body, safe method).
var ErrMaxConns = errors.New("http1: all connections to the upstream carry requests: send the request by another client, or again later")

// RoundTrip sends a request and returns its response, whose body must be closed. If the context of
// the request ends before that, the connection is closed. RoundTrip implements [http.RoundTripper],
// except that the caller closes the request's body if a header is invalid or no connection could be
// opened. Of the hooks of package httptrace it calls GotConn.
//
// If a connection fails before the first byte of the response, the request is sent again only if the
// connection was used before, the request has no body, and its method is safe (RFC 9110 section
// 9.2.1): the upstream may have closed the connection while the request was on its way.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := CheckHeaders(r.Header); err != nil {
		return nil, err
	}
	ctx := r.Context()
	for {
		k, used, err := c.connect(ctx)
		if err != nil {
			return nil, err
		}
		res, err := k.roundTrip(r)
		switch {
		case err == nil:
			return res, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !used || k.answered || hasBody(r) || !slices.Contains(safe, r.Method):
			return nil, err
		}
	}
}

// connect returns an idle connection, or else a new one.
func (c *Client) connect(ctx context.Context) (k *conn, used bool, err error) {
	k = c.take()
	if used = k != nil; !used {
		if k, err = c.dial(ctx); err != nil {
			return nil, false, err
		}
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: k.Conn, Reused: used})
	}
	return k, used, nil
}

// dial returns a new connection.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	if c.open.Add(1) > int32(c.MaxConns) {
		c.open.Add(-1)
		return nil, ErrMaxConns
	}
	n, err := c.Dial(ctx)
	if err == nil {
		return newConn(c, n), nil
	}
	c.open.Add(-1)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, err
}

// CloseIdleConnections closes the connections that carry no request.
func (c *Client) CloseIdleConnections() {
	c.mu.Lock()
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	for _, k := range idle {
		k.abort() // Close would wait for an upstream that reads nothing, and revocations wait for this call
	}
}

// take returns an idle connection that the upstream has not closed; nil = there is none.
func (c *Client) take() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := len(c.idle) - 1; n >= 0; n-- {
		k := c.idle[n]
		c.idle[n] = nil
		c.idle = c.idle[:n]
		k.expiry.Stop() // if it has fired, expire does not find the connection
		if k.quiet() {
			return k
		}
		k.abort()
	}
	return nil
}

// keep makes a connection idle.
func (c *Client) keep(k *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, k)
	if k.expiry == nil {
		k.expiry = time.AfterFunc(c.IdleTime, func() { c.expire(k) })
	} else {
		k.expiry.Reset(c.IdleTime)
	}
}

// expire closes a connection if it is idle.
func (c *Client) expire(k *conn) {
	c.mu.Lock()
	i := slices.Index(c.idle, k)
	if i >= 0 {
		c.idle = slices.Delete(c.idle, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		k.abort()
	}
}

// CheckHeaders returns an error if the name of a header is not a token, or its value has a control
// character other than tab. The error does not contain the value, which may be a secret.
// [http.Request.Write] would leave out a header with an invalid name, and write a space in place of a
// line break.
func CheckHeaders(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, notInToken) {
			return errors.New("http1: the request has a header whose name is not a token (RFC 9110 section 5.1): correct the name")
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				return fmt.Errorf("http1: the header %s of the request has a control character, which no header may have (RFC 9110 section 5.5): correct its value", name)
			}
		}
	}
	return nil
}

// notInToken reports whether a token cannot have this character (RFC 9110 section 5.6.2).
func notInToken(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// safe are the methods of requests that change nothing.
var safe = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}
