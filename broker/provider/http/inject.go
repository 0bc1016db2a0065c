package http

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Injects implements provider.Injector.
func (d *Driver) Injects(s scopes.Set) bool { return d.Check(s) == nil }

// Inject implements provider.Injector. It adds only credentials that a response has made,
// and checks that the request is within the lease's scopes. Package names may contain an
// encoded slash, and page names may contain any script.
func (d *Driver) Inject(_ context.Context, r *http.Request, t provider.Target) error {
	if t.LeaseID == "" || !t.Now.Before(t.ExpiresAt) {
		return errors.New("http: the lease has ended")
	}
	host, path, err := place(r)
	switch {
	case err != nil:
		return provider.Elsewhere(err.Error())
	case !slices.ContainsFunc(t.Scopes.Scopes(), func(s scopes.Scope) bool { return d.lets(s, r, host, path) }):
		return provider.Elsewhere("its host, method and path are not those of the lease's scopes")
	case t.Handle.Empty():
		return nil
	}
	return d.routes.Add(r, t)
}

// lets reports whether a scope covers a request.
func (d *Driver) lets(s scopes.Scope, r *http.Request, host stricturl.Host, path []string) bool {
	// A scope that the configuration no longer allows covers nothing.
	if set, err := scopes.NewSet(s); err != nil || d.Check(set) != nil {
		return false
	}
	if s.Action() == "read" && r.Body != nil && r.Body != http.NoBody {
		return false // a read with a body would send the sandbox's data out
	}
	return host.Port == d.port && covers(s, host.Name, r.Method, path)
}

// ScopesFor implements provider.Injector: the narrowest scope that the configuration allows.
func (d *Driver) ScopesFor(name string, r *http.Request) []scopes.Scope {
	host, path, err := place(r)
	if err != nil {
		return nil
	}
	var all []scopes.Scope
	for action := range methods {
		all = append(all, provider.Enclosing(name, append([]string{host.Name}, path...), action)...)
	}
	for _, s := range append(all, d.allow.Scopes()...) {
		if d.lets(s, r, host, path) {
			return []scopes.Scope{s}
		}
	}
	return nil
}

// place returns the host and the path of a request, or an error when servers could read them
// in more than one way.
func place(r *http.Request) (host stricturl.Host, path []string, err error) {
	if host, err = stricturl.Origin(r); err == nil {
		path, err = stricturl.Target(r, stricturl.PathForm{Slash: true, Text: true})
	}
	return host, path, err
}

// covers reports whether a scope covers a request. A segment with an encoded slash matches
// only **, because some servers read it as two segments.
func covers(s scopes.Scope, host, method string, path []string) bool {
	segments := s.Segments()
	if segments[0] != host || !slices.Contains(methods[s.Action()], method) {
		return false
	}
	pattern := segments[1:]
	for i, want := range pattern {
		if want == scopes.Any && i < len(path) && strings.Contains(path[i], "%2f") {
			return false
		}
	}
	return stricturl.Matches(pattern, path)
}

// sends returns an error when allow covers no request of a route.
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
