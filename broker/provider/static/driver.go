package static

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/broker/vaultapi"
	"ebb/scopes"
)

// Driver hands out placeholders, and adds the secret to requests.
type Driver struct {
	cfg    Config
	hosts  map[string]bool // host:port
	secret source
}

var (
	_ provider.Driver    = (*Driver)(nil)
	_ provider.Injector  = (*Driver)(nil)
	_ provider.Discloser = (*Driver)(nil)
	_ provider.Upgrader  = (*Driver)(nil)
	_ provider.Checker   = (*Driver)(nil)
)

// New makes a driver of a provider. It does not connect. now may be nil; s may be
// nil when the secret is at Vault.
func New(name string, c Config, s provider.Safe, now func() time.Time) (*Driver, error) {
	if err := c.check(name); err != nil {
		return nil, err
	}
	d := &Driver{cfg: c, hosts: map[string]bool{}}
	for _, h := range c.Hosts {
		host, err := exact.ParseHost(h, 443)
		if err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
		d.hosts[host.String()] = true
	}
	switch {
	case c.Vault != nil:
		client, err := vaultapi.New(c.Vault.Config, now)
		if err != nil {
			return nil, fmt.Errorf("vault: %w", err)
		}
		d.secret = fromVault(client, *c.Vault)
	case s == nil:
		return nil, errors.New("secret: there is no safe here to keep it in")
	default:
		d.secret = fromSafe(s, c.Secret)
	}
	return d, nil
}

// Traits: nothing comes into being outside of ebb, and nothing leaves it.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}, InjectOnly: true}
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

// fit reads the secret, and looks whether it can go where it has to.
func (d *Driver) fit(ctx context.Context) (provider.Secret, error) {
	s, err := d.secret(ctx)
	if err == nil {
		err = d.cfg.Inject.fits(s)
	}
	if err != nil {
		return provider.Secret{}, err
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
	if errors.Is(err, errMissing) || errors.Is(err, errUnfit) {
		return provider.Credential{}, provider.Refused("The secret of this provider is missing or unusable. Tell the operator of the broker.", err)
	}
	if err != nil {
		return provider.Credential{}, err
	}
	return provider.Credential{Token: provider.Placeholder(g.LeaseID), Type: "N_A", Format: provider.PlaceholderFormat, ExpiresAt: g.ExpiresAt, DiesAt: g.ExpiresAt}, nil
}

// Revoke has nothing to do: what ebb does not add to a request any more, nobody has.
func (d *Driver) Revoke(context.Context, provider.Target) error { return nil }
