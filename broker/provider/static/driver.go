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
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Driver hands out placeholders, and adds the secret to requests.
type Driver struct {
	name      string
	cfg       Config
	hosts     map[string]bool // host:port
	secret    source          // nil = nothing goes into requests
	pem       source          // of the client certificate; nil = there is none
	routes    provider.SealRoutes
	disclosed *provider.Disclosed
	now       func() time.Time
}

var (
	_ provider.Driver       = (*Driver)(nil)
	_ provider.Injector     = (*Driver)(nil)
	_ provider.Discloser    = (*Driver)(nil)
	_ provider.AnswerSealer = (*Driver)(nil)
	_ provider.Upgrader     = (*Driver)(nil)
	_ provider.Presenter    = (*Driver)(nil)
	_ provider.Checker      = (*Driver)(nil)
)

// New makes a driver of a provider. It does not connect. now may be nil; s may be
// nil when the secret is at Vault.
func New(name string, c Config, s provider.SecretStore, now func() time.Time) (*Driver, error) {
	if err := c.check(name); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	d := &Driver{name: name, cfg: c, hosts: map[string]bool{}, now: now}
	for _, h := range c.Hosts {
		host, err := stricturl.ParseHost(h, 443)
		if err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
		d.hosts[host.String()] = true
	}
	var errs []error
	d.routes = provider.ReadSealRoutes("seal_response", c.SealResponse, provider.SealKind{Name: name, Port: 443, Check: d.Check, Sends: d.sends},
		func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) })
	err := errors.Join(errs...)
	if err != nil {
		return nil, err
	}
	d.disclosed = d.routes.Disclosed(c.Disclosed)
	if held := (Kept{c.Secret, c.Vault}); held != (Kept{}) {
		if d.secret, err = from(held, "", s, now); err != nil {
			return nil, err
		}
	}
	if c.ClientCertificate != nil {
		if d.pem, err = from(*c.ClientCertificate, "client_certificate.", s, now); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Traits: nothing comes into being outside of ebb, but for what answers make, and nothing leaves it.
func (d *Driver) Traits() provider.Traits {
	return d.routes.Promise(provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}, InjectOnly: true})
}

// Check accepts configured scopes.
func (d *Driver) Check(s scopes.Set) error {
	if s.Empty() {
		return fmt.Errorf("%w: there is no scope", provider.ErrUnsupported)
	}
	for _, sc := range s.Scopes() {
		if _, known := d.cfg.Grants.Of(sc); !known {
			return fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, sc)
		}
	}
	return nil
}

// fit reads the secret, and looks whether it can go where it has to. Where none is configured
// it is empty.
func (d *Driver) fit(ctx context.Context) (secret.Secret, error) {
	if d.secret == nil {
		return secret.Secret{}, nil
	}
	s, err := d.secret(ctx)
	if err == nil {
		err = d.cfg.Inject.fits(s)
	}
	if err != nil {
		return secret.Secret{}, err
	}
	return s, nil
}

// Mint makes a placeholder; never the secret, which must be there all the same.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	if err := d.Check(g.Scopes); err != nil {
		return provider.Credential{}, provider.Inexact(err)
	}
	if g.LeaseID == "" || !g.ExpiresAt.After(g.IssuedAt) {
		return provider.Credential{}, provider.Refused("The grant is incomplete.", errors.New("static: no lease, or no lifetime"))
	}
	_, err := d.fit(ctx)
	ends := g.ExpiresAt
	if err == nil {
		ends, err = d.until(ctx, ends)
	}
	if errors.Is(err, errMissing) || errors.Is(err, errUnfit) || errors.Is(err, clientcert.ErrUnusable) {
		return provider.Credential{}, provider.Refused("The secret of this provider is missing or unusable. Tell the operator of the broker.", err)
	}
	if err != nil {
		return provider.Credential{}, err
	}
	return provider.Credential{Token: provider.Placeholder(g.LeaseID), Type: "N_A", Format: provider.PlaceholderFormat, ExpiresAt: ends, DiesAt: ends}, nil
}

// Revoke does nothing: the sandbox has no secret, and egress adds none for an ended lease.
func (d *Driver) Revoke(context.Context, provider.Target) error { return nil }

// Describe implements provider.Describer: by the methods of the requests that the
// secret is added to.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	rule, known := d.cfg.Grants.Of(s)
	switch {
	case !known:
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	case !slices.ContainsFunc(rule.Methods, func(m string) bool { return m != http.MethodGet && m != http.MethodHead && m != http.MethodOptions }):
		return provider.Reading(), nil
	case slices.Contains(rule.Methods, http.MethodDelete):
		return provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "What is deleted by it does not come back."}, nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Unknown, Sentence: "ebb does not know whether this can be undone."}, nil
}
