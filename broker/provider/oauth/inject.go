package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Requests are the requests that egress adds a grant's token to.
type Requests struct {
	// Hosts are the only hosts that may receive the token: "api.example.com", or with a
	// port. Only https is used.
	Hosts []string `json:"hosts"`
	// Disclosed are the names of secret values in responses; nil means
	// provider.CommonlyDisclosed, {} none.
	Disclosed *provider.Disclosed `json:"disclosed,omitempty"`
	// Actions maps the grant's actions to their requests.
	Actions map[string]stricturl.Rule `json:"actions"`
}

const maxHosts = 16

// check calls bad for each problem of q; at is its key in the configuration.
func (q *Requests) check(at string, g Grant, endpoints []string, bad func(string, ...any)) {
	if len(q.Hosts) == 0 || len(q.Hosts) > maxHosts {
		bad("%s.hosts: name 1 to %d", at, maxHosts)
	}
	for _, h := range q.Hosts {
		if !stricturl.CheckHost(h) {
			bad("%s.hosts: %q is not the full name of a host in lower case, like api.example.com or api.example.com:8443", at, h)
		}
	}
	q.Disclosed.Check(at+".disclosed", bad)
	if q.Disclosed == nil {
		q.Disclosed = provider.CommonlyDisclosed()
	}
	if len(q.Actions) == 0 {
		bad("%s.actions: name at least one", at)
	}
	for action, rule := range q.Actions {
		if _, known := g.Actions[action]; !known {
			bad("%s.actions.%s: the grant has no such action", at, action)
		}
		rule.Check(at+".actions."+action, bad)
		for _, e := range endpoints {
			if q.hits(rule, e) {
				bad("%s.actions.%s: its requests reach %s, whose answers hold credentials: name paths without it", at, action, e)
			}
		}
	}
}

// hits reports whether a rule covers an endpoint of the authorization server.
func (q *Requests) hits(rule stricturl.Rule, endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || endpoint == "" {
		return false
	}
	host, err := stricturl.ParseHost(u.Host, 443)
	if err != nil || !q.to(host) {
		return false
	}
	path := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	return slices.ContainsFunc(rule.Methods, func(m string) bool { return rule.Covers(m, path) })
}

func (q *Requests) to(host stricturl.Host) bool {
	return slices.ContainsFunc(q.Hosts, func(h string) bool {
		named, err := stricturl.ParseHost(h, 443)
		return err == nil && named == host
	})
}

// requests returns the requests of one scope; nil when none are configured.
func (d *Driver) requests(s scopes.Scope) (*Requests, stricturl.Rule) {
	q := d.cfg.Grants[s.Resource()].Requests
	if q == nil || s.IsPattern() {
		return nil, stricturl.Rule{}
	}
	rule, known := q.Actions[s.Action()]
	if !known {
		return nil, stricturl.Rule{}
	}
	return q, rule
}

// Injects implements provider.Injector. It is true for actions with configured requests.
func (d *Driver) Injects(s scopes.Set) bool {
	return !s.Empty() && !slices.ContainsFunc(s.Scopes(), func(sc scopes.Scope) bool { q, _ := d.requests(sc); return q == nil })
}

// Discloses implements provider.Discloser: a token is for one resource.
func (d *Driver) Discloses(_ *http.Request, t provider.Target) *provider.Disclosed {
	for _, s := range t.Scopes.Scopes() {
		if q, _ := d.requests(s); q != nil {
			return q.Disclosed
		}
	}
	return provider.CommonlyDisclosed()
}

// Inject implements provider.Injector: Bearer (RFC 6750 section 2.1).
func (d *Driver) Inject(_ context.Context, r *http.Request, t provider.Target) error {
	if t.Handle.Empty() || !t.Now.Before(t.ExpiresAt) {
		return errors.New("oauth: there is no token to inject, or its lease has ended")
	}
	if err := d.mine(r, t.Scopes); err != nil {
		return err
	}
	provider.SetHeader(r, "Authorization", "Bearer "+t.Handle.Reveal())
	return nil
}

// mine refuses a request that the scopes do not cover, or that servers could read in two
// ways. Its error wraps provider.ErrElsewhere.
func (d *Driver) mine(r *http.Request, s scopes.Set) error {
	host, err := stricturl.Origin(r)
	if err != nil {
		return provider.Elsewhere(err.Error())
	}
	path, err := stricturl.Target(r, stricturl.PathForm{Slash: true})
	if err != nil {
		return provider.Elsewhere(err.Error())
	}
	if !d.covers(r.Method, host, path, s, false) {
		return provider.Elsewhere("its host, method and path are not those of the lease's scopes")
	}
	return nil
}

// ScopesFor implements provider.Injector.
func (d *Driver) ScopesFor(name string, r *http.Request) []scopes.Scope {
	all := provider.Grants[stricturl.Rule]{}
	for resource, g := range d.cfg.Grants {
		if g.Requests != nil {
			all[resource] = g.Requests.Actions
		}
	}
	return all.Fitting(name, func(s scopes.Set) bool { return d.mine(r, s) == nil })
}

// Upgrades implements provider.Upgrader.
func (d *Driver) Upgrades(r *http.Request, t provider.Target) bool {
	host, err1 := stricturl.Origin(r)
	path, err2 := stricturl.Target(r, stricturl.PathForm{Slash: true})
	return err1 == nil && err2 == nil && d.covers(r.Method, host, path, t.Scopes, true)
}

// covers reports whether a rule of the scopes covers a method, host and path, and with
// upgrade also allows a WebSocket.
func (d *Driver) covers(method string, host stricturl.Host, path []string, s scopes.Set, upgrade bool) bool {
	return slices.ContainsFunc(s.Scopes(), func(s scopes.Scope) bool {
		q, rule := d.requests(s)
		return q != nil && q.to(host) && rule.Covers(method, path) && (rule.WebSocket || !upgrade)
	})
}
