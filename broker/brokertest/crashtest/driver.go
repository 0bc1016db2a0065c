package crashtest

import (
	"context"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// counted is a driver whose calls are steps.
type counted struct {
	provider.Driver
	c *counter
}

type (
	prober struct {
		provider.Prober
		c *counter
	}
	probing struct {
		counted
		prober
	}
	listing struct {
		counted
		provider.Lister
	}
	both struct {
		counted
		prober
		provider.Lister
	}
)

// counting wraps d and keeps its optional interfaces.
func counting(d provider.Driver, c *counter) provider.Driver {
	p, probes := d.(provider.Prober)
	l, lists := d.(provider.Lister)
	switch w := (counted{d, c}); {
	case probes && lists:
		return both{w, prober{p, c}, l}
	case probes:
		return probing{w, prober{p, c}}
	case lists:
		return listing{w, l}
	default:
		return w
	}
}

// Mint implements provider.Driver.
func (d counted) Mint(ctx context.Context, g provider.Grant) (out provider.Credential, err error) {
	if save := g.Save; save != nil {
		g.Save = func(ctx context.Context, h secret.Secret) (err error) {
			d.c.step("driver: Save", func() { err = save(ctx, h) })
			return err
		}
	}
	d.c.step("driver: Mint", func() { out, err = d.Driver.Mint(ctx, g) })
	return out, err
}

// Revoke implements provider.Driver.
func (d counted) Revoke(ctx context.Context, t provider.Target) (err error) {
	d.c.step("driver: Revoke", func() { err = d.Driver.Revoke(ctx, t) })
	return err
}

// Probe implements provider.Prober.
func (p prober) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	p.c.step("driver: Probe", func() { alive, err = p.Prober.Probe(ctx, t) })
	return alive, err
}
