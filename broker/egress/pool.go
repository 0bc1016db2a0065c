package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"ebb/broker/exact"
	"ebb/broker/provider"
)

// poolKey keeps connections apart: none is ever used with two credentials, so that
// nothing that an upstream remembers of a connection reaches another lease.
type poolKey struct {
	leaseID string
	host    exact.Host
}

// pool is the connections to one upstream with one credential.
type pool struct {
	*http.Transport
	taskID string
	mu     sync.Mutex
	open   map[net.Conn]bool
	over   bool
}

// maxPools bounds the map; beyond, the leases that are over go first.
const maxPools = 4096

type pools struct {
	mu sync.Mutex
	of map[poolKey]*pool
	// ends says until when a pool is of any use.
	ends map[poolKey]time.Time
}

func (p *Proxy) pool(t provider.Target, h exact.Host) *pool {
	k := poolKey{leaseID: t.LeaseID, host: h}
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	if found := p.pools.of[k]; found != nil {
		return found
	}
	if len(p.pools.of) >= maxPools {
		p.pools.sweep(p.cfg.Now())
	}
	made := &pool{taskID: t.TaskID, open: map[net.Conn]bool{}}
	made.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := p.cfg.Dialer.Dial(ctx, h)
			if err != nil {
				return nil, err
			}
			return made.keep(c)
		},
		TLSClientConfig:   &tls.Config{RootCAs: p.cfg.Roots, ServerName: h.Name, MinVersion: tls.VersionTLS12, Time: p.cfg.Now},
		ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64, MaxConnsPerHost: 256, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 256 << 10,
	}
	if p.pools.ends == nil {
		p.pools.ends = map[poolKey]time.Time{}
	}
	p.pools.of[k], p.pools.ends[k] = made, t.ExpiresAt
	return made
}

// sweep drops pools whose leases are over.
func (p *pools) sweep(now time.Time) {
	for k, end := range p.ends {
		if !now.Before(end) {
			p.of[k].end()
			delete(p.of, k)
			delete(p.ends, k)
		}
	}
}

// drop closes every connection of a task or a lease, busy or not.
func (p *pools) drop(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, pl := range p.of {
		if k.leaseID == id || pl.taskID == id {
			pl.end()
			delete(p.of, k)
			delete(p.ends, k)
		}
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

func (p *pool) end() {
	p.mu.Lock()
	p.over = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.CloseIdleConnections()
}
