package http

import (
	"errors"
	"net/http"
	"slices"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// sends says why allow lets no request of a route out.
func (d *Driver) sends(host stricturl.Host, method string, path []string, _ func(scopes.Scope) bool) error {
	if host.Port != d.port || !slices.ContainsFunc(d.allow.Scopes(), func(a scopes.Scope) bool { return covers(a, host.Name, method, path) }) {
		return errors.New("allow does not let its requests out")
	}
	return nil
}

// Seals implements provider.AnswerSealer.
func (d *Driver) Seals(r *http.Request, t provider.Target) *provider.Sealing {
	if d.routes.Empty() {
		return nil
	}
	host, path, err := place(r)
	if err != nil {
		return nil
	}
	return d.routes.Seals(host, r.Method, path, t)
}

// Discloses implements provider.Discloser.
func (d *Driver) Discloses(*http.Request, provider.Target) *provider.Disclosed { return d.disclosed }
