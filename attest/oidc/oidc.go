package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// Attestor judges the tokens of one issuer.
type Attestor struct {
	cfg       Config
	profile   jose.Profile
	keys      *jose.KeyCache
	subject   path
	present   []named
	required  []named
	selectors []named
	people    bool // accept only ID tokens
}

// named is a claim: its name in the configuration, its name in a trace, and its path.
type named struct {
	name, step string
	path       path
}

// nameAll returns paths as a list sorted by name, with prefix before each trace name.
func nameAll(prefix string, paths map[string]string) []named {
	var out []named
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		p, _ := parsePath(paths[name]) // check has parsed it before
		out = append(out, named{name, prefix + " " + name, p})
	}
	return out
}

// identityMap returns a map of each name to itself.
func identityMap(names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		out[name] = name
	}
	return out
}

var _ attest.Personal = (*Attestor)(nil)

var _ attest.Attestor = (*Attestor)(nil)

var _ attest.Registrar = (*Attestor)(nil)

// New returns an Attestor. It does not fetch keys, so that ebb starts while an issuer
// is down. It does read keys from the configuration or a file.
func New(c Config) (*Attestor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	a := &Attestor{
		cfg: c, present: nameAll("present", identityMap(c.Present)),
		required:  nameAll("required", identityMap(slices.Collect(maps.Keys(c.Required)))),
		selectors: nameAll("selector", c.Selectors),
	}
	a.profile = jose.Profile{Types: c.Types, AllowNoType: len(c.Types) == 0, Algs: c.Algs, Issuer: c.Issuer,
		Audience: c.Audience, OtherAudiences: slices.Collect(maps.Keys(c.OtherAudiences)), MaxLifetime: c.MaxLifetime, Leeway: *c.Leeway}
	if len(c.Types) == 0 {
		a.profile.Types = []string{"jwt"}
	}
	a.subject, _ = parsePath(c.Subject) // check has parsed it before
	var err error
	if a.keys, err = jose.NewKeyCache(c.keys()); err != nil {
		return nil, fmt.Errorf("attest/oidc %q: %w", c.Name, err)
	}
	return a, nil
}

// Attest implements attest.Attestor.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, fmt.Errorf("attest/oidc %q: %w", a.cfg.Name, err)
	}
	keys := func(h jose.Header) (jose.Key, error) { return a.keys.Key(ctx, h) }
	profile := a.profile
	if e.ClientAssertion {
		profile.OtherAudiences = nil
	}
	profile.Passed = func(check, found string) { attest.Passed(ctx, check, found) }
	c, err := jose.Verify(string(e.Document), profile, keys, a.cfg.Now())
	if err != nil {
		return attest.Identity{}, a.failure(err)
	}
	jkt, x5t, err := c.Confirmation()
	if err != nil {
		return attest.Identity{}, a.failure(err)
	}
	// The pipeline compares jkt for all kinds. Identity has no member for the
	// certificate, so it is compared here.
	if x5t != "" && x5t != e.Key.X5T {
		return attest.Identity{}, attest.Reject(attest.ReasonKeyBinding, "the token is bound to another client certificate; connect with the certificate that the token names in cnf", nil)
	}
	id := attest.Identity{
		Attestor: a.cfg.Name, Class: a.cfg.Class, NotAfter: c.Expiry, MadeAt: c.Made(), Key: jkt,
		ReplayID: "jwt:" + c.Digest(), ReplayUntil: c.Expiry.Add(*a.cfg.Leeway),
	}
	if id.Subject, err = a.subject.text(c); err != nil || id.Subject == "" {
		return attest.Identity{}, attest.Reject(attest.ReasonClaims, "the token has no subject, or one that is not plain text", err)
	}
	attest.Passed(ctx, "subject", id.Subject)
	if err := a.checkClaims(ctx, c); err != nil {
		return attest.Identity{}, err
	}
	id.Selectors, err = a.selectorsOf(ctx, c, id.Subject)
	if err != nil {
		return attest.Identity{}, err
	}
	if a.people {
		return asPerson(c, id)
	}
	return id, nil
}

const missingClaim = "the token lacks a required claim, or a required claim has another value; the operator sees which with ebb attest explain"

// checkClaims returns a rejection unless the token has the present and required claims.
func (a *Attestor) checkClaims(ctx context.Context, c *jose.Claims) error {
	for _, n := range a.present {
		got, err := n.path.text(c)
		if err != nil || got == "" {
			return attest.Reject(attest.ReasonClaims, missingClaim, fmt.Errorf("%s: %w", n.name, cmp.Or(err, errAbsent)))
		}
		attest.Passed(ctx, n.step, got)
	}
	for _, n := range a.required {
		got, err := n.path.text(c)
		if err == nil && !slices.Contains(a.cfg.Required[n.name], got) {
			err = errors.New("the claim has none of the accepted values")
		}
		if err != nil {
			return attest.Reject(attest.ReasonClaims, missingClaim, fmt.Errorf("%s: %w", n.name, err))
		}
		attest.Passed(ctx, n.step, got)
	}
	return nil
}

// selectorsOf returns the selectors of a token. A selector whose claim is absent is left
// out, so that no registration of it matches.
func (a *Attestor) selectorsOf(ctx context.Context, c *jose.Claims, subject string) (map[string]string, error) {
	out := make(map[string]string, 1+len(a.selectors))
	out["sub"] = subject
	for _, n := range a.selectors {
		got, err := n.path.text(c)
		switch {
		case errors.Is(err, errAbsent):
		case err != nil:
			return nil, attest.Reject(attest.ReasonClaims, "a claim of the token that is mapped to a selector is not a string, a boolean or an integer", fmt.Errorf("selector %s: %w", n.name, err))
		default:
			out[n.name] = got
			attest.Passed(ctx, n.step, got)
		}
	}
	if a.cfg.shape == "" {
		return out, nil
	}
	if err := a.cfg.shape.read(subject, out); err != nil {
		return nil, attest.Reject(attest.ReasonClaims, "the subject of the token does not have the form of this platform", err)
	}
	return out, nil
}

// failure converts an error of package jose into a rejection, or adds the instance's
// name to an error which means that the token could not be judged.
func (a *Attestor) failure(err error) error {
	if err = attest.FromToken(err); errors.Is(err, attest.ErrRejected) {
		return err
	}
	return fmt.Errorf("attest/oidc %q: cannot judge: %w", a.cfg.Name, err)
}

// ForPeople implements attest.Personal. The Attestor that it returns checks ID tokens as
// OpenID Connect Core section 3.1.3.7 requires, and rejects tokens that have a claim
// which only other kinds of tokens have.
func (a *Attestor) ForPeople() attest.Attestor {
	b := *a
	b.people = true
	b.profile.IDToken = true
	return &b
}

// notInIDTokens are claims of access tokens (RFC 9068; Okta, Entra ID and Auth0 have
// claims of their own), of security event tokens, of logout tokens, and of delegation
// tokens, with which another party acts for the person (act, RFC 8693).
var notInIDTokens = []string{"scope", "client_id", "events", "scp", "cid", "appid", "appidacr", "azpacr", "gty", "authorization_details", "act"}

// asPerson rejects tokens that are not ID tokens, and returns id with AuthAt and ACR from
// the claims auth_time and acr, both zero when absent.
func asPerson(c *jose.Claims, id attest.Identity) (attest.Identity, error) {
	no := func(why string) (attest.Identity, error) {
		return attest.Identity{}, attest.Reject(attest.ReasonClaims, "the token is not an ID token from a sign-in for this ebb", errors.New(why))
	}
	if i := slices.IndexFunc(notInIDTokens, c.Has); i >= 0 {
		return no("it has the claim " + notInIDTokens[i])
	}
	// Keycloak (typ) and Cognito (token_use) name the kind of a token in its payload.
	for name, kind := range map[string]string{"typ": "ID", "token_use": "id"} {
		if got, ok := c.String(name); c.Has(name) && (!ok || got != kind) {
			return no(name + " is not " + kind)
		}
	}
	if c.IssuedAt.IsZero() {
		return no("it has no iat")
	}
	if c.Has("auth_time") {
		var at int64
		if c.DecodeClaim("auth_time", &at) != nil || at <= 0 {
			return no("auth_time is not a number of seconds")
		}
		id.AuthAt = time.Unix(at, 0)
	}
	if c.Has("acr") {
		acr, ok := c.String("acr")
		if !ok {
			return no("acr is not a string")
		}
		id.ACR = acr
	}
	return id, nil
}
