package static

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"ebb/broker/provider"
	"ebb/scopes"
)

// Inject implements provider.Injector.
func (d *Driver) Inject(ctx context.Context, r *http.Request, t provider.Target) error {
	if t.LeaseID == "" || !t.Now.Before(t.ExpiresAt) {
		return errOver
	}
	host, err := origin(r)
	if err != nil {
		return err
	}
	if !d.hosts[host] {
		return elsewhere("its host is not one of this provider's")
	}
	path, err := target(r)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(t.Scopes.Scopes(), func(s scopes.Scope) bool {
		rule, known := d.cfg.Grants.Of(s)
		return known && rule.covers(r.Method, path)
	}) {
		return elsewhere("its method and path are not those of the lease's scopes")
	}
	s, err := d.fit(ctx)
	if err != nil {
		return fmt.Errorf("static: nothing can be added to the request: %w", err)
	}
	d.cfg.Inject.put(r, s)
	return nil
}
