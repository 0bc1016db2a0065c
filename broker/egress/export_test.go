package egress

import (
	"context"
	"net"

	"golang.org/x/time/rate"

	"ebb/broker"
)

// Serve serves a box that none of Boxes has opened.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, who broker.Caller, ca *CA) error {
	ctx, done := p.begin(ctx, who)
	defer done()
	return p.serve(ctx, l, who, ca)
}

// Redactors are how many p has, how many requests use one, and how many bytes they count as.
func (p *Proxy) Redactors() (n, uses, bytes int) {
	p.redactors.mu.Lock()
	defer p.redactors.mu.Unlock()
	for _, x := range p.redactors.all {
		uses += x.uses
	}
	return len(p.redactors.all), uses, p.redactors.held.n
}

// AcceptOf is for tests.
var AcceptOf = acceptOf

// Shown are how many pools have the key of a client certificate now.
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

// Pace has a box of another machine go by another pace from now on, and returns the one before.
func (b *Boxes) Pace(taskID, id string, l *rate.Limiter) (before *rate.Limiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.of[taskID][id].l.(*handed)
	before, h.pace = h.pace, l
	return before
}

// Wait is how many connections of all boxes may wait from now on; it returns how many before.
func (b *Boxes) Wait(most int) (before int) {
	b.waiting.mu.Lock()
	defer b.waiting.mu.Unlock()
	before, b.waiting.most = b.waiting.most, most
	return before
}
