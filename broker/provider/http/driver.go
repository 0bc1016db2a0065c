package http

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Driver allows requests.
type Driver struct {
	allow     scopes.Set
	port      uint16
	routes    provider.SealRoutes
	disclosed *provider.Disclosed // nil when responses make no credentials
}

var (
	_ provider.Driver       = (*Driver)(nil)
	_ provider.Injector     = (*Driver)(nil)
	_ provider.Discloser    = (*Driver)(nil)
	_ provider.AnswerSealer = (*Driver)(nil)
	_ provider.Describer    = (*Driver)(nil)
)

// New returns a driver for the provider of this name.
func New(name string, c Config) (*Driver, error) {
	set, err := c.set(name)
	if err != nil {
		return nil, err
	}
	d := &Driver{allow: set, port: cmp.Or(c.Port, 443)}
	var errs []error
	d.routes = provider.ReadSealRoutes("seal_response", c.SealResponse, provider.SealKind{Name: name, Port: d.port, Check: d.Check, Sends: d.sends},
		func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if !d.routes.Empty() {
		d.disclosed = d.routes.Disclosed(provider.CommonlyDisclosed())
	}
	return d, nil
}

// Traits: no credential is made at a third party, and nothing is added to a request, except
// credentials that responses make.
func (d *Driver) Traits() provider.Traits {
	return d.routes.Promise(provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}, InjectOnly: true, Credentialless: true})
}

// Check accepts the scopes that the configuration allows.
func (d *Driver) Check(s scopes.Set) error {
	if s.Empty() {
		return fmt.Errorf("%w: there is no scope", provider.ErrUnsupported)
	}
	for _, sc := range s.Scopes() {
		if err := wrong(sc); err != nil {
			return fmt.Errorf("%w: %s: %w", provider.ErrUnsupported, sc, err)
		}
	}
	if !d.allow.Covers(s) {
		return fmt.Errorf("%w: the configuration does not allow all of it", provider.ErrUnsupported)
	}
	return nil
}

// Mint returns a placeholder, which requests do not need to contain.
func (d *Driver) Mint(_ context.Context, g provider.Grant) (provider.Credential, error) {
	if err := d.Check(g.Scopes); err != nil {
		return provider.Credential{}, provider.Inexact(err)
	}
	if g.LeaseID == "" || !g.ExpiresAt.After(g.IssuedAt) {
		return provider.Credential{}, provider.Refused("The grant is incomplete.", errors.New("http: no lease, or no lifetime"))
	}
	return provider.Credential{Token: provider.Placeholder(g.LeaseID), Type: "N_A", Format: provider.PlaceholderFormat, ExpiresAt: g.ExpiresAt, DiesAt: g.ExpiresAt}, nil
}

// Revoke does nothing: egress refuses requests of an ended lease.
func (d *Driver) Revoke(context.Context, provider.Target) error { return nil }

// Describe implements provider.Describer.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	one, err := scopes.NewSet(s)
	if err == nil {
		err = d.Check(one)
	}
	switch {
	case err != nil:
		return provider.Effect{}, err
	case s.Action() == "read":
		return provider.Reading(), nil
	case s.Action() == "delete":
		return provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "What is deleted by it does not come back."}, nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "What is sent to somebody does not come back."}, nil
}

// Config is the provider's part of the configuration.
type Config struct {
	// Allow are the widest scopes that a caller can request: "registry.example.com/**:read".
	// Required.
	Allow []string `json:"allow"`
	// Port is the port of the hosts; 0 means 443.
	Port uint16 `json:"port,omitempty"`
	// SealResponse are routes whose responses make credentials that stay in ebb; each route
	// occurs once.
	SealResponse []provider.SealRoute `json:"seal_response,omitempty"`
}

const maxAllow = 64

// set parses Allow as scopes of the provider of that name and returns all problems joined.
func (c Config) set(name string) (scopes.Set, error) {
	var errs []error
	var all []scopes.Scope
	if len(c.Allow) == 0 || len(c.Allow) > maxAllow {
		errs = append(errs, fmt.Errorf("allow: name 1 to %d, like registry.example.com/**:read", maxAllow))
	}
	for i, text := range c.Allow {
		s, err := scopes.Parse(name + ":" + text)
		if err == nil {
			err = wrong(s)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("allow[%d]: %q is not <host>/<path>:<action>, like registry.example.com/**:read: %w", i, text, err))
			continue
		}
		all = append(all, s)
	}
	if err := errors.Join(errs...); err != nil {
		return scopes.Set{}, err
	}
	return scopes.NewSet(all...)
}

// methods maps an action to its HTTP methods.
var methods = map[string][]string{"read": {"GET", "HEAD"}, "write": {"POST", "PUT", "PATCH"}, "delete": {"DELETE"}}

// wrong returns why a scope covers no requests: its first part is not a host, it has no
// path, or its action is unknown.
func wrong(s scopes.Scope) error {
	host := s.Segments()[0]
	switch {
	case stricturl.CheckName(host) != nil:
		return errors.New("the first part must be the full name of one host in lower case")
	case len(s.Segments()) == 1:
		return errors.New("add the paths after the host: /** covers all")
	case methods[s.Action()] == nil:
		return errors.New("the action must be read, write or delete")
	}
	return nil
}
