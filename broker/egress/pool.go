package egress

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/egress/http1"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// poolKey keeps connections apart by credential. No connection is used with two credentials, so
// that state which an upstream keeps for a connection never reaches another lease.
type poolKey struct {
	leaseID     string
	host        stricturl.Host
	certificate [sha256.Size]byte // its ID; zero = no client certificate
}

// pool holds the connections to one upstream with one credential.
type pool struct {
	http1     http1.Client    // for requests that arrived over HTTP/1.1, maxHTTP1 at a time
	http2     *http.Transport // for all others; it uses HTTP/1.1 for WebSockets, and if the upstream has no HTTP/2
	onlyHTTP2 atomic.Bool     // the upstream has refused HTTP/1.1
	key       poolKey
	ids       []string  // root task, task, tasks above it, and lease: the pool ends with the first of them
	end       time.Time // expiry of the lease

	busy int       // requests that use it; guarded by the mutex of pools, as used is
	used time.Time // when the last of them ended
	old  bool      // another client certificate of the lease has replaced its own

	shown    atomic.Pointer[tls.Certificate] // nil = none, or no request is running
	asked    atomic.Bool                     // the upstream has requested a certificate
	answered atomic.Bool                     // the upstream has responded to a request

	stop context.CancelFunc // cancels all lookups and dials for it
	mu   sync.Mutex
	open map[net.Conn]bool
	over bool
}

// Limits of pools: of one task, of all, and how long an unused one is kept.
const (
	taskPools = 256
	maxPools  = (shares + 1) * taskPools
	idlePool  = 2 * time.Minute
)

// Limits of the connections of a pool.
const (
	handshakeTime   = 10 * time.Second // for TLS
	maxHTTP1        = 16               // of http1; further requests use http2
	maxIdleHTTP2    = 64               // unused ones of http2, if it uses HTTP/1.1
	idleConnection  = 90 * time.Second // how long an unused one is kept
	maxResponseHead = 256 << 10        // bytes
)

type pools struct {
	mu    sync.Mutex
	count share
	swept time.Time
	of    map[poolKey]*pool
	by    map[string]map[poolKey]bool // by task or lease id, so that an end finds its pools without a scan
}

func (p *pools) put(made *pool) {
	k := made.key
	if p.of == nil {
		p.of, p.by = map[poolKey]*pool{}, map[string]map[poolKey]bool{}
	}
	p.of[k] = made
	for _, id := range made.ids {
		if p.by[id] == nil {
			p.by[id] = map[poolKey]bool{}
		}
		p.by[id][k] = true
	}
}

// take removes a pool and closes it.
func (p *pools) take(k poolKey) {
	pl := p.of[k]
	delete(p.of, k)
	for _, id := range pl.ids {
		if delete(p.by[id], k); len(p.by[id]) == 0 {
			delete(p.by, id)
		}
	}
	p.count.give(pl.ids[0], 1)
	pl.close()
}

// replace retires the pools that show the same host another client certificate of the same lease.
// They are closed when their running requests end.
func (p *pools) replace(k poolKey) {
	for other := range p.by[k.leaseID] {
		if other.host != k.host || other.certificate == k.certificate {
			continue
		}
		if pl := p.of[other]; pl.busy > 0 {
			pl.old = true
		} else {
			p.take(other)
		}
	}
}

// leave records that a request has stopped using a pool.
func (p *pools) leave(pl *pool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl.busy--
	pl.used = now
	if pl.busy > 0 {
		return
	}
	pl.shown.Store(nil)
	if pl.old && p.of[pl.key] == pl {
		p.take(pl.key)
	}
}

// giveUp closes the pool of a task that was unused for longest; false = all are in use.
func (p *pools) giveUp(task string) bool {
	var oldest poolKey
	found := false
	for k := range p.by[task] {
		if pl := p.of[k]; pl.busy == 0 && (!found || pl.used.Before(p.of[oldest].used)) {
			oldest, found = k, true
		}
	}
	if found {
		p.take(oldest)
	}
	return found
}

// sweep closes the pools of expired leases, and those that were unused for idlePool.
func (p *pools) sweep(now time.Time) {
	p.swept = now
	for k, pl := range p.of {
		if !now.Before(pl.end) || pl.busy == 0 && now.Sub(pl.used) >= idlePool {
			p.take(k)
		}
	}
}

// drop closes every connection of a task or lease, in use or not.
func (p *pools) drop(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.by[id] {
		p.take(k)
	}
}

// all closes every connection.
func (p *pools) all() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.of {
		p.take(k)
	}
}

// upstream is a connection that leaves its pool when it is closed.
type upstream struct {
	net.Conn
	p *pool
}

// NetConn returns the connection below.
func (u *upstream) NetConn() net.Conn { return u.Conn }

// Close implements net.Conn.
func (u *upstream) Close() error {
	u.p.mu.Lock()
	delete(u.p.open, u.Conn)
	u.p.mu.Unlock()
	return u.Conn.Close()
}

func (p *pool) keep(c net.Conn) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		_ = c.Close()
		return nil, ErrOver
	}
	p.open[c] = true
	return &upstream{Conn: c, p: p}, nil
}

func (p *pool) close() {
	p.mu.Lock()
	p.over = true
	p.stop()
	p.shown.Store(nil)
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.closeIdle()
}

func (p *pool) closeIdle() {
	p.http1.CloseIdleConnections()
	p.http2.CloseIdleConnections()
}

// certificate returns the client certificate for connections to the upstream of a request; nil =
// none. Most providers have none.
func certificate(ctx context.Context, use broker.Usable, r *http.Request) (*clientcert.Certificate, error) {
	p, is := use.Injector.(provider.Presenter)
	if !is {
		return nil, nil
	}
	c, err := p.Presents(ctx, r, use.Target)
	switch {
	case errors.Is(err, clientcert.ErrUnusable):
		return nil, deny(Certificate, err)
	case errors.Is(err, provider.ErrElsewhere):
		return nil, deny(NotAllowed, err)
	case err != nil:
		return nil, deny(Doubt, err)
	}
	return c, nil
}

// show returns the client certificate for a handshake. It is called after the upstream has proved
// its identity (RFC 8446 section 4.4.2, RFC 5246 section 7.4.6). The key is in memory only while a
// request is running.
func (p *pool) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	p.asked.Store(true)
	if p.key.certificate == (poolKey{}).certificate {
		return new(tls.Certificate), nil
	}
	if c := p.shown.Load(); c != nil {
		return c, nil
	}
	return nil, ErrOver
}

// refused reports whether the upstream rejected the client certificate, or the lack of one: it
// requested a certificate, and then sent an alert (RFC 8446 section 6.2) or closed the connection
// without a response.
func (p *pool) refused(err error) bool {
	if !p.asked.Load() {
		return false
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" {
		return true
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	return (ended || strings.Contains(err.Error(), notEstablished)) && !p.answered.Load()
}

// notEstablished is the text of net/http for an HTTP/2 connection that ended before the server had
// sent anything and before the request was on it. net/http exports no error for this case.
const notEstablished = "http2: client conn could not be established"

// trip sends a request over a connection of the pool.
func (p *pool) trip(r *http.Request) (*http.Response, error) {
	res, err := p.send(r)
	if err == nil {
		p.answered.Store(true)
		return res, nil
	}
	refused := p.refused(err)
	if err = unquoted(err); refused {
		err = deny(Certificate, err)
	}
	return nil, err
}

// send sends a request in the version of HTTP in which it arrived, if the upstream supports it. Beyond
// maxHTTP1 at a time, requests that arrived over HTTP/1.1, such as event streams, share connections of
// HTTP/2, because each connection counts for the task's share.
func (p *pool) send(r *http.Request) (*http.Response, error) {
	if r.ProtoMajor == 1 && !p.onlyHTTP2.Load() {
		res, err := p.http1.RoundTrip(r)
		switch {
		case errors.Is(err, errNoHTTP1):
			p.onlyHTTP2.Store(true)
		case !errors.Is(err, http1.ErrMaxConns):
			return res, err
		}
	}
	return p.http2.RoundTrip(r)
}

// errNoHTTP1 means that the upstream has refused HTTP/1.1 in the handshake, so that no request was
// sent. After a later alert with the same code, the request must not be sent again.
var errNoHTTP1 = errors.New("the upstream does not support HTTP/1.1")

// noProtocol is the text of the alert no_application_protocol (RFC 7301 section 3.2). crypto/tls
// exports no type for alerts of the other side.
const noProtocol = "remote error: tls: no application protocol"

// secure does the TLS handshake with an upstream. It closes c if that fails.
func secure(ctx context.Context, c net.Conn, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTime, fmt.Errorf("the TLS handshake took longer than %s", handshakeTime))
	defer cancel()
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		switch {
		case ctx.Err() != nil:
			err = deny(Unreachable, context.Cause(ctx))
		case err.Error() == noProtocol:
			err = fmt.Errorf("%w: %w", errNoHTTP1, err)
		}
		return nil, err
	}
	return t, nil
}

// idle closes the unused upstream connections of a task.
func (p *pools) idle(task string) {
	p.mu.Lock()
	all := make([]*pool, 0, len(p.by[task]))
	for k := range p.by[task] {
		all = append(all, p.of[k])
	}
	p.mu.Unlock()
	for _, pl := range all {
		pl.closeIdle()
	}
}

// dialled is a connection to an upstream. It holds its slot until it is closed.
type dialled struct{ slot }

// CloseWrite closes the write direction, or the connection where that is not possible.
func (d *dialled) CloseWrite() error {
	if half, can := d.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return d.Close()
}
