package egress

import (
	"context"
	"net"

	"golang.org/x/time/rate"

	"github.com/ebb-broker/ebb/broker"
)

// Serve serves an endpoint that Endpoints has not opened.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, who broker.Caller, ca *CA) error {
	ctx, done := p.begin(ctx, who)
	defer done()
	return p.serve(ctx, l, who, ca)
}

// Redactors returns the number of redactors of p, of the requests that use one, and of the bytes
// that they count as.
func (p *Proxy) Redactors() (n, uses, bytes int) {
	p.redactors.mu.Lock()
	defer p.redactors.mu.Unlock()
	for _, x := range p.redactors.all {
		uses += x.uses
	}
	return len(p.redactors.all), uses, p.redactors.held.n
}

// AcceptOf exports acceptOf.
var AcceptOf = acceptOf

// Shown returns how many pools hold the key of a client certificate.
func (p *Proxy) Shown() (n int) {
	p.pools.mu.Lock()
	defer p.pools.mu.Unlock()
	for _, pl := range p.pools.of {
		if pl.shown.Load() != nil {
			n++
		}
	}
	return n
}

// Pace sets the rate limit of a sandbox on another machine, and returns the one before.
func (b *Endpoints) Pace(taskID, id string, l *rate.Limiter) (before *rate.Limiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of[taskID][id].l.(*remoteListener)
	before, h.pace = h.pace, l
	return before
}

// Wait sets how many connections of all sandboxes may wait, and returns the number before.
func (b *Endpoints) Wait(most int) (before int) {
	b.waiting.mu.Lock()
	defer b.waiting.mu.Unlock()
	before, b.waiting.most = b.waiting.most, most
	return before
}
