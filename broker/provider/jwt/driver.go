package jwt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Keys hands out the key that signs at a moment; keys.Ring is one.
type Keys interface {
	Signer(now time.Time) (s jose.Signer, kid string, alg jose.Alg, err error)
}

// Config of a driver. Both members are required.
type Config struct {
	Issuer string // iss, byte-identical to the metadata's issuer
	Keys   Keys
}

// Driver mints own tokens.
type Driver struct{ cfg Config }

var _ provider.Driver = (*Driver)(nil)

// New makes a driver.
func New(c Config) (*Driver, error) {
	if c.Issuer == "" || c.Keys == nil {
		return nil, errors.New("jwt provider: issuer and keys are required")
	}
	return &Driver{cfg: c}, nil
}

// Check accepts every scope: a resource server of ours reads the scope itself
// and needs no translation.
func (d *Driver) Check(s scopes.Set) error {
	if s.Empty() {
		return fmt.Errorf("%w: no scope", provider.ErrUnsupported)
	}
	return nil
}

// Mint signs a token for g.
func (d *Driver) Mint(_ context.Context, g provider.Grant) (provider.Credential, error) {
	if (g.Binding.JKT == "") == (g.Binding.X5T == "") {
		return provider.Credential{}, errors.New("jwt provider: a grant needs exactly one binding")
	}
	if g.LeaseID == "" || g.Subject == "" || g.Sandbox == "" || g.Resource == "" || g.Scopes.Empty() || !g.ExpiresAt.After(g.IssuedAt) {
		return provider.Credential{}, errors.New("jwt provider: the grant is incomplete")
	}
	signer, kid, _, err := d.cfg.Keys.Signer(g.IssuedAt)
	if err != nil {
		return provider.Credential{}, fmt.Errorf("jwt provider: no key to sign with: %w", err)
	}
	claims, err := claimsOf(d.cfg.Issuer, g)
	if err != nil {
		return provider.Credential{}, fmt.Errorf("jwt provider: %w", err)
	}
	token, err := jose.Sign(signer, jose.SignHeader{Type: "at+jwt", KID: kid}, claims)
	if err != nil {
		return provider.Credential{}, fmt.Errorf("jwt provider: signing: %w", err)
	}
	kind := "Bearer" // RFC 8705 section 3: mTLS-bound tokens keep Bearer
	if g.Binding.JKT != "" {
		kind = "DPoP"
	}
	return provider.Credential{Token: secret.New(token), Type: kind, ExpiresAt: g.ExpiresAt}, nil
}

// Revoke has nothing to do: the live store refuses the token already.
func (d *Driver) Revoke(context.Context, provider.Target) error { return nil }

// Traits are those of an own token: the live store's word counts at once, everywhere
// that asks, and nothing exists outside ebb.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}}
}

// Describe implements provider.Describer: what an action means is the resource
// server's to say.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) { return provider.ByAction(s), nil }
