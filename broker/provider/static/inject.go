package static

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// errOver is the error for an ended lease.
var errOver = errors.New("static: the lease has ended")

// Injects implements provider.Injector. Every configured scope has its requests.
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
	fitting := d.cfg.Grants.Fitting(name, func(s scopes.Set) bool { return d.mine(r, provider.Target{Scopes: d.allObjectsOf(s)}) == nil })
	for i, s := range fitting {
		fitting[i] = d.allObjects(s)
	}
	return fitting
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
		return fmt.Errorf("static: the secret cannot be added to the request: %w", err)
	}
	if !s.Empty() {
		d.cfg.Inject.put(r, s)
	}
	return nil
}

// mine refuses a request whose host, method and path the lease does not cover, or that
// servers could read in two ways. Its error wraps provider.ErrElsewhere.
func (d *Driver) mine(r *http.Request, t provider.Target) error {
	host, err := stricturl.Origin(r)
	if err != nil {
		return provider.Elsewhere(err.Error())
	}
	if !d.hosts[host.String()] {
		return provider.Elsewhere("its host is not one of this provider's")
	}
	path, err := stricturl.Target(r, stricturl.PathForm{Slash: true})
	if err != nil {
		return provider.Elsewhere(err.Error())
	}
	if !d.covers(r.Method, path, t, false) {
		return provider.Elsewhere("its method and path are not those of the lease's scopes")
	}
	return nil
}

// adds reports whether the credential of a lease is for requests of one of its scopes. The provider's
// secret is never used for scopes whose credentials come from responses.
func (d *Driver) adds(s scopes.Scope, t provider.Target) bool {
	return !t.Handle.Empty() || !d.routes.Uses(s)
}

// covers reports whether a rule of the lease's scopes covers a method and path, and with
// upgrade also allows a WebSocket.
func (d *Driver) covers(method string, path []string, t provider.Target, upgrade bool) bool {
	return slices.ContainsFunc(t.Scopes.Scopes(), func(s scopes.Scope) bool {
		rule, _, known := d.rule(s)
		return known && d.adds(s, t) && rule.Covers(method, path) && (rule.WebSocket || !upgrade)
	})
}

// sends returns an error when the secret is added to no request of a route.
func (d *Driver) sends(host stricturl.Host, method string, path []string, uses func(scopes.Scope) bool) error {
	if !d.hosts[host.String()] {
		return errors.New("its host is not one of hosts")
	}
	for resource, actions := range d.cfg.Grants {
		for action, rule := range actions {
			s, err := scopes.New(d.name, resource, action)
			if err == nil && !uses(d.allObjects(s)) && rule.Covers(method, path) {
				return nil
			}
		}
	}
	return errors.New("no action of grants allows its requests, except the actions in use: add an action for the route")
}

// Seals implements provider.AnswerSealer.
func (d *Driver) Seals(r *http.Request, t provider.Target) *provider.Sealing {
	if d.routes.Empty() {
		return nil
	}
	host, err1 := stricturl.Origin(r)
	path, err2 := stricturl.Target(r, stricturl.PathForm{Slash: true})
	if err1 != nil || err2 != nil {
		return nil
	}
	return d.routes.Seals(host, r.Method, path, t)
}

// Presents implements provider.Presenter. The certificate, like the secret, is read for each
// request.
func (d *Driver) Presents(ctx context.Context, r *http.Request, t provider.Target) (*clientcert.Certificate, error) {
	if d.pem == nil {
		return nil, nil //nolint:nilnil // no certificate is configured
	}
	if t.LeaseID == "" || !t.Now.Before(t.ExpiresAt) {
		return nil, errOver
	}
	if err := d.mine(r, t); err != nil {
		return nil, err
	}
	return d.certificate(ctx)
}

// certificate returns the current certificate, nil when none is configured.
func (d *Driver) certificate(ctx context.Context) (*clientcert.Certificate, error) {
	if d.pem == nil {
		return nil, nil //nolint:nilnil // no certificate is configured
	}
	s, err := d.pem(ctx)
	if err != nil {
		return nil, err
	}
	return clientcert.Parse(s.Reveal(), d.now())
}

// until returns when a lease that would end at end has to end. Servers continue a connection
// after the client's certificate has expired; ebb does not.
func (d *Driver) until(ctx context.Context, end time.Time) (time.Time, error) {
	c, err := d.certificate(ctx)
	if err != nil || c == nil || end.Before(c.NotAfter()) {
		return end, err
	}
	return c.NotAfter(), nil
}
