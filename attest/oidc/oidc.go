package oidc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
)

// Attestor judges the tokens of one issuer.
type Attestor struct {
	cfg       Config
	profile   jose.Profile
	key       func(context.Context, jose.Header) (jose.Key, error)
	subject   path
	required  map[string]path // by the path's text
	selectors map[string]path // by selector name
}

var _ attest.Attestor = (*Attestor)(nil)

// New makes an Attestor. It does not fetch keys, so that ebb starts when an
// issuer is down; it does read keys that are in place.
func New(c Config) (*Attestor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	a := &Attestor{cfg: c, required: map[string]path{}, selectors: map[string]path{}}
	a.profile = jose.Profile{Types: c.Types, AllowNoType: len(c.Types) == 0, Algs: c.Algs, Issuer: c.Issuer,
		Audience: c.Audience, MaxLifetime: c.MaxLifetime, Leeway: c.Leeway}
	if len(c.Types) == 0 {
		a.profile.Types = []string{"jwt"}
	}
	// check has parsed these before.
	a.subject, _ = parsePath(c.Subject)
	for p := range c.Required {
		a.required[p], _ = parsePath(p)
	}
	for name, p := range c.Selectors {
		a.selectors[name], _ = parsePath(p)
	}
	if err := a.loadKeys(); err != nil {
		return nil, fmt.Errorf("attest/oidc %q: %w", c.Name, err)
	}
	return a, nil
}

func (a *Attestor) loadKeys() error {
	if len(a.cfg.JWKS) > 0 {
		set, err := jose.ParseJWKS(a.cfg.JWKS)
		if err == nil && len(set.Keys()) == 0 {
			err = errors.New("jwks: no usable key in the set")
		}
		a.key = func(_ context.Context, h jose.Header) (jose.Key, error) { return set.Key(h) }
		return err
	}
	cache, err := jose.NewKeyCache(jose.CacheConfig{URL: a.cfg.JWKSURL, File: a.cfg.JWKSFile,
		HTTPClient: a.cfg.HTTPClient, Now: a.cfg.Now, Logger: a.cfg.Logger})
	if err != nil {
		return err
	}
	a.key = cache.Key
	return nil
}

// Attest implements attest.Attestor.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, fmt.Errorf("attest/oidc %q: %w", a.cfg.Name, err)
	}
	keys := func(h jose.Header) (jose.Key, error) { return a.key(ctx, h) }
	c, err := jose.Verify(string(e.Document), a.profile, keys, a.cfg.Now())
	if err != nil {
		return attest.Identity{}, a.failure(err)
	}
	jkt, x5t, err := c.Confirmation()
	if err != nil {
		return attest.Identity{}, a.failure(err)
	}
	// The pipeline compares jkt for all kinds; only a certificate has no place
	// in Identity.
	if x5t != "" && x5t != e.Key.X5T {
		return attest.Identity{}, attest.Reject(attest.ReasonKeyBinding, "the token is bound to another client certificate", nil)
	}
	id := attest.Identity{
		Attestor: a.cfg.Name, Class: attest.ClassSigned, NotAfter: c.Expiry, Key: jkt,
		ReplayID: a.cfg.Name + ":" + c.Digest(), ReplayUntil: c.Expiry.Add(a.cfg.Leeway),
	}
	if id.Subject, err = a.subject.text(c); err != nil || id.Subject == "" {
		return attest.Identity{}, attest.Reject(attest.ReasonClaims, "the token does not name its subject", err)
	}
	if err := a.checkRequired(c); err != nil {
		return attest.Identity{}, err
	}
	id.Selectors, err = a.selectorsOf(c, id.Subject)
	return id, err
}

func (a *Attestor) checkRequired(c *jose.Claims) error {
	for _, name := range slices.Sorted(maps.Keys(a.required)) {
		got, err := a.required[name].text(c)
		if err == nil && !slices.Contains(a.cfg.Required[name], got) {
			err = errors.New("the claim has another value")
		}
		if err != nil {
			return attest.Reject(attest.ReasonClaims, "the token lacks a claim or value that is required of it", fmt.Errorf("%s: %w", name, err))
		}
	}
	return nil
}

// selectorsOf leaves out claims that are absent: then nothing matches them.
func (a *Attestor) selectorsOf(c *jose.Claims, subject string) (map[string]string, error) {
	out := map[string]string{"sub": subject}
	for _, name := range slices.Sorted(maps.Keys(a.selectors)) {
		got, err := a.selectors[name].text(c)
		switch {
		case errors.Is(err, errAbsent):
		case err != nil:
			return nil, attest.Reject(attest.ReasonClaims, "a claim of the token cannot be compared", fmt.Errorf("selector %s: %w", name, err))
		default:
			out[name] = got
		}
	}
	return out, nil
}

func (a *Attestor) failure(err error) error {
	if err = attest.FromToken(err); errors.Is(err, attest.ErrRejected) {
		return err
	}
	return fmt.Errorf("attest/oidc %q: cannot judge: %w", a.cfg.Name, err)
}
