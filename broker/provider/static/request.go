package static

import (
	"net/http"
	"slices"

	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/scopes"
)

// mine refuses what these scopes are not for, by its host, method and path, and what servers
// could read in two ways. Its error wraps provider.ErrElsewhere.
func (d *Driver) mine(r *http.Request, s scopes.Set) error {
	host, err := exact.Origin(r)
	if err != nil {
		return provider.Elsewhere(err.Error())
	}
	if !d.hosts[host.String()] {
		return provider.Elsewhere("its host is not one of this provider's")
	}
	path, err := exact.Target(r, exact.PathForm{Slash: true})
	if err != nil {
		return provider.Elsewhere(err.Error())
	}
	if !d.covers(r.Method, path, s, false) {
		return provider.Elsewhere("its method and path are not those of the lease's scopes")
	}
	return nil
}

// covers reports whether one of the rules that scopes stand for is for a method and path, and
// lets that become a WebSocket where upgrade says so.
func (d *Driver) covers(method string, path []string, s scopes.Set, upgrade bool) bool {
	return slices.ContainsFunc(s.Scopes(), func(s scopes.Scope) bool {
		rule, known := d.cfg.Grants.Of(s)
		return known && rule.Covers(method, path) && (rule.WebSocket || !upgrade)
	})
}
