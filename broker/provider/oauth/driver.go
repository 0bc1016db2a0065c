package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// hold is the maximum time of one exchange of a refresh token. The call itself has a shorter
// timeout.
const hold = 30 * time.Second

// lostLifetime is the assumed maximum lifetime of a token whose response was lost, unless
// max_lifetime is set. Servers commonly issue tokens for an hour.
const lostLifetime = time.Hour

// Driver mints tokens of one authorization server.
type Driver struct {
	cfg     Config
	secrets provider.SecretStore
	http    *http.Client
	now     func() time.Time
}

var (
	_ provider.Driver    = (*Driver)(nil)
	_ provider.Checker   = (*Driver)(nil)
	_ provider.Injector  = (*Driver)(nil)
	_ provider.Discloser = (*Driver)(nil)
	_ provider.Upgrader  = (*Driver)(nil)
	_ provider.Prober    = prober{}
)

// New returns a driver for the provider of this name. It makes no connections. secrets may
// be nil when no grant has a refresh token; now may be nil.
func New(name string, c Config, secrets provider.SecretStore, now func() time.Time) (provider.Driver, error) {
	if err := c.check(name); err != nil {
		return nil, err
	}
	if secrets == nil {
		for res, g := range c.Grants {
			if g.RefreshToken != "" {
				return nil, fmt.Errorf("grants.%s.refresh_token: this process has no secret store; configure a sealing key (sealing)", res)
			}
		}
	}
	if c.RevocationBound == 0 {
		c.RevocationBound = defaultBound
	}
	if now == nil {
		now = time.Now
	}
	roots, err := provider.Roots(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	d := &Driver{cfg: c, secrets: secrets, now: now}
	call := provider.HTTP{Roots: roots}
	if c.Client.tls() { // a connection is bound to the certificate with which it was opened
		call.Certificate, call.OneCall = d.shown, true
	}
	d.http = call.Client()
	if c.IntrospectionEndpoint != "" {
		return prober{d}, nil
	}
	return d, nil
}

// Traits implements provider.Driver. Resource servers refuse a revoked token when they next
// ask the server, if the server supports revocation.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: d.revocability(), ThirdParty: true, Floor: d.floor()}
}

// floor returns the longest life of a token that cannot be revoked because its response was lost.
// Only that response named its lifetime.
func (d *Driver) floor() time.Duration {
	most := time.Duration(d.cfg.MaxLifetime) * time.Second
	if most == 0 {
		most = lostLifetime
	}
	return max(most, time.Duration(d.cfg.AssumedLifetime)*time.Second)
}

func (d *Driver) revocability() provider.Revocability {
	if d.cfg.RevocationEndpoint == "" {
		return provider.Revocability{Class: provider.ClassTTLOnly}
	}
	return provider.Revocability{Class: provider.ClassEventual, Bound: time.Duration(d.cfg.RevocationBound) * time.Second}
}

// Check accepts configured actions of one resource, without patterns.
func (d *Driver) Check(s scopes.Set) error {
	_, _, err := d.grant(s)
	return err
}

func (d *Driver) grant(s scopes.Set) (g Grant, asked []string, err error) {
	if s.Empty() {
		return g, nil, fmt.Errorf("%w: no scope", provider.ErrUnsupported)
	}
	resource := s.Scopes()[0].Resource()
	for _, sc := range s.Scopes() {
		var known bool
		g, known = d.cfg.Grants[sc.Resource()]
		text, can := g.Actions[sc.Action()]
		switch {
		case !known || !can || sc.IsPattern():
			return g, nil, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, sc)
		case sc.Resource() != resource:
			return g, nil, fmt.Errorf("%w: a token is for one resource", provider.ErrUnsupported)
		}
		asked = append(asked, strings.Fields(text)...)
	}
	slices.Sort(asked)
	return g, slices.Compact(asked), nil
}

// Mint requests an access token with exactly the scopes.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	grant, asked, err := d.grant(g.Scopes)
	if err != nil {
		return provider.Credential{}, provider.Inexact(err)
	}
	if g.LeaseID == "" || !g.ExpiresAt.After(g.IssuedAt) {
		return provider.Credential{}, provider.Refused("The grant is incomplete.", errors.New("oauth: no lease or no lifetime"))
	}
	form := url.Values{"scope": {strings.Join(asked, " ")}}
	if grant.Resource != "" {
		form.Set("resource", grant.Resource)
	}
	got, err := d.exchange(ctx, grant, form)
	if err != nil && got.access.Empty() {
		return provider.Credential{}, judged(err)
	}
	c := provider.Credential{Token: got.access, Type: "Bearer", Handle: got.access, ExpiresAt: g.ExpiresAt}
	if err == nil {
		err = got.covered(asked)
	}
	life := got.lifetime
	if life == 0 {
		life = time.Duration(d.cfg.AssumedLifetime) * time.Second
	}
	if err == nil && life == 0 {
		err = errors.New("oauth: the response states no lifetime, and assumed_lifetime is not set")
	}
	if err != nil { // a token exists that differs from the request: the broker revokes it
		return provider.Credential{Handle: got.access}, fmt.Errorf("oauth: the token is not issued: %w", err)
	}
	c.DiesAt = d.now().Add(life)
	if c.DiesAt.Before(c.ExpiresAt) {
		c.ExpiresAt = c.DiesAt
	}
	if got.jwt() {
		c.Revocability = provider.Revocability{Class: provider.ClassTTLOnly}
	}
	if d.cfg.RevocationEndpoint == "" || got.jwt() {
		if most := max(g.ExpiresAt.Sub(g.IssuedAt), d.floor()); life > most {
			// The broker issues no token beside an error, and stores its expiry.
			return c, fmt.Errorf("oauth: the token is not issued: it cannot be revoked, and its lifetime of %s is longer than %s: shorten it at the server, or set max_lifetime", life, most)
		}
	}
	return c, nil
}

// exchange requests a token. With an error it also returns the access token, if the response
// has one.
func (d *Driver) exchange(ctx context.Context, g Grant, form url.Values) (got answer, err error) {
	if g.RefreshToken == "" {
		form.Set("grant_type", "client_credentials")
		body, err := d.post(ctx, d.cfg.TokenEndpoint, form)
		if err != nil {
			return got, err
		}
		return read(body)
	}
	form.Set("grant_type", "refresh_token")
	err = d.secrets.Exchange(ctx, g.RefreshToken, hold, func(ctx context.Context, old secret.Secret) (secret.Secret, error) {
		form.Set("refresh_token", old.Reveal())
		body, err := d.post(ctx, d.cfg.TokenEndpoint, form)
		if err != nil {
			return secret.Secret{}, err
		}
		got, err = read(body)
		return got.refresh, err // the successor is stored even after another error
	})
	return got, err
}

// judged returns a refusal for those errors which mean that no token was made: those with an
// OAuth error code. A status without one may come from a proxy after the server has made a
// token.
func judged(err error) error {
	oe, ok := errors.AsType[*oauthError](err)
	if !ok || oe.code == "" || oe.status < http.StatusBadRequest || oe.status >= http.StatusInternalServerError || oe.status == http.StatusRequestTimeout {
		return err // including *provider.BusyError
	}
	switch oe.code {
	case "invalid_grant":
		return provider.Refused("The broker's authorization is no longer valid. Tell the operator of the broker to renew it.", err)
	case "invalid_scope", "invalid_target":
		return provider.Refused("The server does not grant this scope. Request another, or tell the operator of the broker.", err)
	case "temporarily_unavailable", "server_error":
		return err
	default:
		return provider.Refused("The server refuses the broker. Tell the operator of the broker: ebb providers check lists what is missing.", err)
	}
}

// Describe implements provider.Describer. The effects come from the operator's Words.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, known := d.cfg.Grants[s.Resource()].Actions[s.Action()]; !known || s.IsPattern() {
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	}
	return provider.ByAction(s), nil
}
