package static

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// errOver is what a lease gets that has ended.
var errOver = errors.New("static: the lease is over")

// Injects implements provider.Injector: every scope that is configured says its requests.
func (d *Driver) Injects(s scopes.Set) bool { return d.Check(s) == nil }

// Discloses implements provider.Discloser.
func (d *Driver) Discloses(*http.Request, provider.Target) *provider.Disclosed {
	return d.disclosed
}

// Upgrades implements provider.Upgrader.
func (d *Driver) Upgrades(r *http.Request, t provider.Target) bool {
	host, err1 := stricturl.Origin(r)
	path, err2 := stricturl.Target(r, stricturl.PathForm{Slash: true})
	return err1 == nil && err2 == nil && d.hosts[host.String()] && d.covers(r.Method, path, t, true)
}

// ScopesFor implements provider.Injector.
func (d *Driver) ScopesFor(name string, r *http.Request) []scopes.Scope {
	return d.cfg.Grants.Fitting(name, func(s scopes.Set) bool { return d.mine(r, provider.Target{Scopes: s}) == nil })
}

// Inject implements provider.Injector.
func (d *Driver) Inject(ctx context.Context, r *http.Request, t provider.Target) error {
	if t.LeaseID == "" || !t.Now.Before(t.ExpiresAt) {
		return errOver
	}
	if err := d.mine(r, t); err != nil {
		return err
	}
	if !t.Handle.Empty() {
		return d.routes.Add(r, t)
	}
	s, err := d.fit(ctx)
	if err != nil {
		return fmt.Errorf("static: nothing can be added to the request: %w", err)
	}
	if !s.Empty() {
		d.cfg.Inject.put(r, s)
	}
	return nil
}
