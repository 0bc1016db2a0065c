package jwt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Keys returns the key that signs at a given time; keys.Ring implements it.
type Keys interface {
	Signer(now time.Time) (s jose.Signer, kid string, alg jose.Alg, err error)
}

// Config of a driver. Both members are required.
type Config struct {
	Issuer string // iss, byte-identical to the metadata's issuer
	Keys   Keys
}

// Driver mints ebb's own tokens.
type Driver struct{ cfg Config }

var _ provider.Driver = (*Driver)(nil)

// New returns a driver.
func New(c Config) (*Driver, error) {
	if c.Issuer == "" || c.Keys == nil {
		return nil, errors.New("jwt provider: issuer and keys are required")
	}
	return &Driver{cfg: c}, nil
}

// Check accepts every scope, because ebb's own resource servers read the scope directly.
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
		return provider.Credential{}, fmt.Errorf("jwt provider: there is no signing key: %w", err)
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

// Revoke does nothing: the live store refuses the token already.
func (d *Driver) Revoke(context.Context, provider.Target) error { return nil }

// Traits returns the traits of ebb's own tokens. Revocation takes effect at once at every
// server that asks the live store, and no credential exists outside ebb.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}}
}

// Describe implements provider.Describer. The effect comes from the action's name, because
// the resource server defines its meaning.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) { return provider.ByAction(s), nil }

// claimsOf returns the payload of a token for g. It has the claims of RFC 9068 section 2.2,
// with scope as a string (RFC 8693 section 4.2), cnf with one member (RFC 7800), act (RFC
// 8693 section 4.1), authorization_details on request (RFC 9396 section 9.1), and then the
// private claims by name. Every mint calls it: an encoder with reflection would take a
// quarter of the time of the signature.
func claimsOf(issuer string, g provider.Grant) (json.RawMessage, error) {
	o := object{b: append(make([]byte, 0, 768), '{')}
	o.text("iss", issuer)
	o.text("sub", g.Subject)
	o.text("aud", g.Resource)
	o.text("client_id", g.Sandbox)
	o.number("iat", g.IssuedAt.Unix())
	o.number("exp", g.ExpiresAt.Unix())
	o.text("jti", g.LeaseID)
	o.text("scope", g.Scopes.String())
	o.texts("cnf", map[string]string{"jkt": g.Binding.JKT, "x5t#S256": g.Binding.X5T})
	if g.Txn != "" {
		o.text("txn", g.Txn)
	}
	if g.Subject != g.Sandbox && g.Actor != nil {
		o.actor(g.Actor)
	}
	if g.Details {
		o.value("authorization_details", scopes.DetailsOf(g.Scopes))
	}
	for _, name := range slices.Sorted(maps.Keys(g.Claims)) {
		if _, taken := slices.BinarySearch(registered, name); !taken {
			o.text(name, g.Claims[name])
		}
	}
	return append(o.b, '}'), o.err
}

// registered are the names of claims that claimsOf may write. A private claim never replaces
// one of them.
var registered = []string{
	"act", "aud", "authorization_details", "client_id", "cnf", "exp", "iat", "iss", "jti", "nbf", "scope", "sub", "txn",
}

// object is a JSON object under construction. The caller ensures that its names are
// distinct.
type object struct {
	b   []byte
	err error // the first error
}

func (o *object) name(n string) {
	if c := o.b[len(o.b)-1]; c != '{' {
		o.b = append(o.b, ',')
	}
	o.quote(n)
	o.b = append(o.b, ':')
}

func (o *object) actor(a *provider.Actor) {
	o.name("act")
	o.b = append(o.b, '{')
	o.text("sub", a.Subject)
	o.text("iss", a.Issuer)
	if a.Actor != nil {
		o.actor(a.Actor)
	}
	o.b = append(o.b, '}')
}

// quote refuses text that is not UTF-8, because parsers do not agree on its meaning.
func (o *object) quote(s string) {
	b, err := jsontext.AppendQuote(o.b, s)
	if o.b = b; err != nil && o.err == nil {
		o.err = fmt.Errorf("a claim is not text: %w", err)
	}
}

func (o *object) text(n, v string) {
	o.name(n)
	o.quote(v)
}

func (o *object) number(n string, v int64) {
	o.name(n)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// texts writes the non-empty members of m as an object, sorted by name.
func (o *object) texts(n string, m map[string]string) {
	o.name(n)
	o.b = append(o.b, '{')
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != "" {
			o.text(name, m[name])
		}
	}
	o.b = append(o.b, '}')
}

func (o *object) value(n string, v any) {
	o.name(n)
	raw, err := json.Marshal(v)
	if o.b = append(o.b, raw...); err != nil && o.err == nil {
		o.err = fmt.Errorf("the claim %s: %w", n, err)
	}
}
