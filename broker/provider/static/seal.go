package static

import (
	"errors"
	"net/http"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// sends says why the secret goes to no request of a route.
func (d *Driver) sends(host stricturl.Host, method string, path []string, uses func(scopes.Scope) bool) error {
	if !d.hosts[host.String()] {
		return errors.New("its host is none of hosts")
	}
	for resource, actions := range d.cfg.Grants {
		for action, rule := range actions {
			s, err := scopes.New(d.name, resource, action)
			if err == nil && !uses(s) && rule.Covers(method, path) {
				return nil
			}
		}
	}
	return errors.New("no action of grants lets its requests out, other than those that use names: name an action of its own for the route")
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
