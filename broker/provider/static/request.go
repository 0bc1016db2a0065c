package static

import (
	"net/http"
	"slices"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// mine refuses what a lease is not for, by its host, method and path, and what servers
// could read in two ways. Its error wraps provider.ErrElsewhere.
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

// covers reports whether one of the rules that the scopes of a lease stand for is for a method and
// path, and lets that become a WebSocket where upgrade says so. The secret of the provider is for
// none of those that answers make credentials for.
func (d *Driver) covers(method string, path []string, t provider.Target, upgrade bool) bool {
	return slices.ContainsFunc(t.Scopes.Scopes(), func(s scopes.Scope) bool {
		rule, known := d.cfg.Grants.Of(s)
		return known && (!t.Handle.Empty() || !d.routes.Uses(s)) && rule.Covers(method, path) && (rule.WebSocket || !upgrade)
	})
}
