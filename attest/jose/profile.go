package jose

import (
	"slices"
	"time"
)

// Profile has the requirements for one kind of token. The zero value accepts no token.
// Types, Issuer and Audience distinguish kinds of tokens (RFC 8725, section 3.12).
type Profile struct {
	// Types are the accepted values of typ, without "application/", in any letter case.
	Types []string
	// AllowNoType accepts a token without typ.
	AllowNoType bool
	// Algs are the accepted algorithms. EdDSA and Ed25519 (RFC 9864) each include the other.
	Algs []Alg
	// Issuer is the exact iss. Required unless AnyIssuer.
	Issuer string
	// AnyIssuer accepts any or no iss: SPIFFE JWT-SVIDs, DPoP proofs.
	AnyIssuer bool
	// Audience must be the only aud, exactly. Required unless AnyAudience.
	Audience string
	// OtherAudiences may be in aud beside Audience: each of them could present the token to
	// ebb. Empty by default; client assertions never allow any (RFC 7523bis).
	OtherAudiences []string
	// IDToken checks azp as in OpenID Connect Core section 3.1.3.7: azp, if present, must be
	// Audience, and aud may then contain other audiences.
	IDToken bool
	// AnyAudience accepts any or no aud: DPoP proofs.
	AnyAudience bool
	// NoExp accepts a token without exp. An exp that is present is still checked.
	NoExp bool
	// MaxLifetime is the maximum of exp - iat. nbf, then now, replaces a missing iat. Zero
	// means 24 h; no workload token needs a longer lifetime.
	MaxLifetime time.Duration
	// MaxAge, when set, requires iat and refuses a token older than this.
	MaxAge time.Duration
	// Leeway is the tolerance for clock differences in exp, nbf and iat. Zero means none.
	Leeway time.Duration
	// Limits are the limits for Parse.
	Limits Limits
	// Passed, when set, is called with the name of each check that passed and with the value
	// that it found. 'ebb attest explain' displays them.
	Passed func(check, found string)
}

func (p *Profile) passed(check, found string) {
	if p.Passed != nil {
		p.Passed(check, found)
	}
}

// DefaultMaxLifetime applies when Profile.MaxLifetime is zero.
const DefaultMaxLifetime = 24 * time.Hour

func (p *Profile) allows(a Alg) bool {
	return slices.ContainsFunc(p.Algs, func(b Alg) bool { return a.canonical() == b.canonical() })
}

// check does all checks of a token that need no key. It runs before the signature check,
// because it is cheaper.
func (p *Profile) check(c *Claims, now time.Time) error {
	h := c.Header
	if !p.allows(h.Alg) {
		return refuse(ReasonAlgorithm, "the signature algorithm of the token is not accepted here")
	}
	p.passed("algorithm", string(h.Alg))
	typed := slices.ContainsFunc(p.Types, func(t string) bool { return h.Type == normalType(t) && h.Type != "" })
	if !typed && !(h.Type == "" && p.AllowNoType) {
		return refuse(ReasonType, "this type of token is not accepted here")
	}
	p.passed("type", h.Type)
	if !p.AnyIssuer && (p.Issuer == "" || c.Issuer != p.Issuer) {
		return refuse(ReasonIssuer, "the issuer of the token is not the expected one")
	}
	p.passed("issuer", c.Issuer)
	if !p.AnyAudience {
		if err := p.checkAudience(c); err != nil {
			return err
		}
	}
	p.passed("audience", p.Audience)
	if err := p.checkTime(c, now); err != nil {
		return err
	}
	if p.Passed != nil {
		p.Passed("time", c.Expiry.UTC().Format(time.RFC3339))
	}
	return nil
}

func (p *Profile) checkAudience(c *Claims) error {
	if p.Audience == "" || !slices.Contains(c.Audience, p.Audience) {
		return refuse(ReasonAudience, "the token is meant for another audience")
	}
	if p.IDToken && c.Has("azp") {
		if azp, ok := c.String("azp"); !ok || azp != p.Audience {
			return refuse(ReasonAudience, "the token was issued to another client (azp)")
		}
		return nil
	}
	if len(c.Audience) == 1 {
		return nil
	}
	unknown := func(a string) bool { return a != p.Audience && !slices.Contains(p.OtherAudiences, a) }
	if len(p.OtherAudiences) == 0 || p.IDToken || slices.ContainsFunc(c.Audience, unknown) {
		return refuse(ReasonAudience, "the token has more than one audience")
	}
	return nil
}

func (p *Profile) checkTime(c *Claims, now time.Time) error {
	leeway := max(p.Leeway, 0)
	if c.Expiry.IsZero() && !p.NoExp {
		return refuse(ReasonExpired, "the token has no expiry")
	}
	if !c.Expiry.IsZero() && !now.Before(c.Expiry.Add(leeway)) {
		return refuse(ReasonExpired, "the token has expired")
	}
	if now.Add(leeway).Before(c.NotBefore) || now.Add(leeway).Before(c.IssuedAt) {
		return refuse(ReasonNotYetValid, "the token is not valid yet; check the clock of its issuer")
	}
	if p.MaxAge > 0 && (c.IssuedAt.IsZero() || now.Sub(c.IssuedAt) > p.MaxAge+leeway) {
		return refuse(ReasonLifetime, "the token was not issued recently")
	}
	if c.Expiry.IsZero() {
		return nil
	}
	start := now
	if !c.NotBefore.IsZero() {
		start = c.NotBefore
	}
	if !c.IssuedAt.IsZero() {
		start = c.IssuedAt
	}
	limit := p.MaxLifetime
	if limit <= 0 {
		limit = DefaultMaxLifetime
	}
	if life := c.Expiry.Sub(start); life <= 0 || life > limit {
		return refuse(ReasonLifetime, "the lifetime of the token is not accepted; ask for a shorter one")
	}
	return nil
}
