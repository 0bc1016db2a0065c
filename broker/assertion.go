package broker

import (
	"context"
	"errors"
	"time"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// assertionLife is the longest a client assertion may live (RFC 7523 section 3:
// "may be rejected if exp is unreasonably far in the future").
const assertionLife = 5 * time.Minute

// AuthenticateAssertion authenticates a principal by private_key_jwt (RFC 7523
// section 3, RFC 7523bis: aud is the issuer alone). clientID, when not empty,
// must be the assertion's subject (RFC 7521 section 4.2).
func (b *Broker) AuthenticateAssertion(ctx context.Context, assertion, clientID string) (Principal, error) {
	p, err := b.assertionPrincipal(ctx, assertion, clientID)
	if e, is := errors.AsType[*Error](err); is && e.Kind == Unauthenticated {
		b.note(ctx, b.entry(audit.PrincipalRefused, unknown, map[string]string{"why": e.Public}))
	}
	return p, err
}

func (b *Broker) assertionPrincipal(ctx context.Context, assertion, clientID string) (Principal, error) {
	bad := func(public string, cause error) (Principal, error) {
		return Principal{}, E(Unauthenticated, public, cause)
	}
	unverified, err := jose.Parse(assertion, jose.Limits{})
	if err != nil {
		return bad("The client assertion is not an acceptable JWT.", err)
	}
	sub := unverified.Claims().Subject
	cfg, known := b.principals[sub]
	if !known || len(cfg.Keys) == 0 {
		return bad("The client is not known here or its key is not registered.", nil)
	}
	if clientID != "" && clientID != sub {
		return bad("client_id differs from the subject of the client assertion.", nil)
	}
	set, err := jose.NewKeySet(cfg.Keys...)
	if err != nil {
		return bad("The keys of this client are configured twice.", err)
	}
	if err := b.verifyAssertion(ctx, assertion, sub, set.Key); err != nil {
		return Principal{}, err
	}
	return cfg.Principal, nil
}

// verifyAssertion is the one check of client assertions, of principals and of
// sandboxes: iss = sub = client, aud the issuer alone, short-lived, used once.
// What it claims is remembered for minutes, so the client's rates come first.
func (b *Broker) verifyAssertion(ctx context.Context, assertion, sub string, key jose.KeySource, rates ...Rate) error {
	c, err := jose.Verify(assertion, jose.Profile{
		Types: []string{"JWT", "client-authentication+jwt"}, AllowNoType: true,
		Algs:   []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519, jose.RS256, jose.PS256},
		Issuer: sub, Audience: b.cfg.Issuer,
		MaxLifetime: assertionLife + skew, Leeway: skew,
	}, key, b.now())
	if err != nil {
		if !errors.Is(err, jose.ErrToken) {
			return unavailable(err)
		}
		return E(Unauthenticated, publicOf(err, "The client assertion was refused."), err)
	}
	if c.Subject != sub {
		return E(Unauthenticated, "iss and sub of the client assertion must both be the client.", nil)
	}
	if c.ID == "" {
		return E(Unauthenticated, "The client assertion needs a jti.", nil)
	}
	made := c.IssuedAt
	if made.IsZero() { // no later than this
		made = c.Expiry.Add(-assertionLife - skew)
	}
	if b.reckon(); made.Unix() < b.since.Load() {
		return E(Unauthenticated, "The client assertion is older than the memory of the broker, which has just started. Sign a new one.", nil)
	}
	if len(rates) > 0 {
		_, err := b.cfg.Ledger.Admit(ctx, Admission{Rates: rates})
		if r, ok := errors.AsType[*RateError](err); ok {
			return tooOften(r)
		}
		if err != nil {
			return unavailable(err)
		}
	}
	_, err = b.cfg.Ledger.Admit(ctx, Admission{Claims: []Claim{{
		Key: "ca:" + hashOf(sub, c.ID), Value: "1", Until: c.Expiry.Add(skew),
	}}})
	switch {
	case errors.Is(err, ErrForgotten):
		return forgottenError(err)
	case errors.Is(err, ErrClaimed):
		return E(Unauthenticated, "The client assertion was used before. Sign a new one for each request.", err)
	case err != nil:
		return unavailable(err)
	}
	return nil
}
