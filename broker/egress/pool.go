package egress

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ebb/broker"
	"ebb/broker/clientcert"
	"ebb/broker/exact"
	"ebb/broker/provider"
)

// poolKey keeps connections apart: none is ever used with two credentials, so that
// nothing that an upstream remembers of a connection reaches another lease.
type poolKey struct {
	leaseID     string
	host        exact.Host
	certificate [sha256.Size]byte // its ID; zero = none is shown
}

// pool is the connections to one upstream with one credential.
type pool struct {
	*http.Transport
	key poolKey
	ids []string  // the root first, task, those above it, and lease: with the end of one of them it ends
	end time.Time // it is of no use afterwards

	busy int       // requests that have it; with used under the mutex of pools
	used time.Time // when the last of them was over
	old  bool      // another certificate has taken the place of its own

	shown    atomic.Pointer[tls.Certificate] // nil = none, or nobody uses it now
	asked    atomic.Bool                     // the upstream has, for a certificate
	answered atomic.Bool                     // the upstream has, a request

	stop context.CancelFunc // of all that is looked up or dialled for it
	mu   sync.Mutex
	open map[net.Conn]bool
	over bool
}

// Bounds of pools: of a task and of all, and how long one is kept that nobody uses.
const (
	taskPools = 256
	maxPools  = (shares + 1) * taskPools
	idlePool  = 2 * time.Minute
)

type pools struct {
	mu    sync.Mutex
	count share
	swept time.Time
	of    map[poolKey]*pool
	by    map[string]map[poolKey]bool // task or lease: an end finds its own among those of all others
}

// pool is the one to use for a request; leave is owed for it. A task with as many as it
// may have gives up the one that it has not used for longest.
func (p *Proxy) pool(who broker.Caller, t provider.Target, h exact.Host, c *clientcert.Certificate) (*pool, error) {
	k, now := poolKey{leaseID: t.LeaseID, host: h, certificate: c.ID()}, p.cfg.Now()
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	if found := p.pools.of[k]; found != nil {
		found.busy++
		found.old = false
		found.shown.Store(c.Show())
		return found, nil
	}
	if now.Sub(p.pools.swept) >= idlePool/4 {
		p.pools.sweep(now)
	}
	for !p.pools.count.take(who.Root(), 1, taskPools, maxPools) {
		if !p.pools.giveUp(who.Root()) {
			return nil, deny(TooOften, errors.New("every connection that the task may have is in use"))
		}
	}
	p.pools.replace(k)
	made := p.dials(who, t, h)
	made.key, made.busy = k, 1
	made.shown.Store(c.Show())
	p.pools.put(made)
	return made, nil
}

// dials makes a pool whose connections lead to one host.
func (p *Proxy) dials(who broker.Caller, t provider.Target, h exact.Host) *pool {
	life, stop := context.WithCancel(context.Background())
	made := &pool{ids: append([]string{who.Root()}, append(lineage(who), t.LeaseID)...), end: t.ExpiresAt, open: map[net.Conn]bool{}, stop: stop}
	made.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			// The transport dials on for later requests when that of one is cut. Here there will be none.
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(life, cancel)()
			c, err := p.dial(who, func() (net.Conn, error) { return p.cfg.Dialer.Dial(ctx, h) })
			if err != nil {
				return nil, err
			}
			return made.keep(c)
		},
		TLSClientConfig:   &tls.Config{RootCAs: p.cfg.Roots, ServerName: h.Name, MinVersion: tls.VersionTLS12, Time: p.cfg.Now, GetClientCertificate: made.show},
		ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64, MaxConnsPerHost: 256, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 256 << 10,
	}
	return made
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

// replace has no request use connections that showed the host another certificate of the lease:
// they are closed when those that are under way are over.
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

// leave says that a request has done with a pool.
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

// giveUp takes the pool of a task that was not used for longest; false: all are in use.
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

// sweep drops pools whose leases are over, and those that nobody uses.
func (p *pools) sweep(now time.Time) {
	p.swept = now
	for k, pl := range p.of {
		if !now.Before(pl.end) || pl.busy == 0 && now.Sub(pl.used) >= idlePool {
			p.take(k)
		}
	}
}

// drop closes every connection of a task or a lease, busy or not.
func (p *pools) drop(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.by[id] {
		p.take(k)
	}
}

// all closes every connection there is.
func (p *pools) all() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.of {
		p.take(k)
	}
}

// upstream is a connection that its pool knows of until it is closed.
type upstream struct {
	net.Conn
	p *pool
}

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
	p.CloseIdleConnections()
}
