package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
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
		data := map[string]string{"why": e.Public}
		if cause, is := errors.AsType[*jose.Error](e.Cause); is {
			data["reason"] = string(cause.Reason)
		}
		if errors.Is(e.Cause, errNoClient) {
			data["reason"] = "client_unknown"
		}
		b.note(ctx, b.entry(audit.PrincipalRefused, unknown, data))
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
	if clientID != "" && clientID != sub {
		return bad("client_id differs from the subject of the client assertion.", nil)
	}
	keys := noClient
	cfg, known := b.principals[sub]
	if known && len(cfg.Keys) > 0 {
		set, err := jose.NewKeySet(cfg.Keys...)
		if err != nil {
			return Principal{}, unavailable(fmt.Errorf("the keys of principal %q: %w", sub, err))
		}
		keys = set.Key
	}
	err = b.verifyAssertion(ctx, assertion, sub, keys)
	if u, is := errors.AsType[*unclaimedError](err); is && cfg.mayEnd() {
		return cfg.Doubtful(u.cause), nil
	}
	if err != nil {
		return Principal{}, err
	}
	return cfg.Principal, nil
}

var errNoClient = errors.New("no client of this id has a key")

// noClient is the KeySource of a client that is not known: it has no key.
func noClient(jose.Header) (jose.Key, error) {
	return jose.Key{}, errors.Join(errNoClient, jose.KeyUnknown())
}

// newDecoys are keys that nobody holds, one for each algorithm of client assertions.
func newDecoys() (jose.KeySource, error) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ed, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	n := make([]byte, 256)
	_, _ = rand.Read(n)                // never fails (crypto/rand)
	n[0], n[255] = n[0]|0x80, n[255]|1 // 2048 bits, odd; its factors are not known
	rs := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}
	return func(h jose.Header) (jose.Key, error) {
		switch h.Alg {
		case jose.ES256:
			return jose.NewKey("", &ec.PublicKey)
		case jose.EdDSA, jose.Ed25519:
			return jose.NewKey("", ed)
		}
		return jose.NewKey("", rs)
	}, nil
}

// verifySigned verifies a client assertion. What fails before the key is looked for
// depends on the assertion alone and is named. All else gets one answer, and a
// signature is verified each time: neither tells clients that are known here from others.
func (b *Broker) verifySigned(assertion string, profile jose.Profile, keys jose.KeySource) (*jose.Claims, error) {
	now := b.now()
	u, err := jose.Parse(assertion, profile.Limits)
	if err == nil {
		_, err = u.Check(profile, now)
	}
	if err != nil {
		return nil, E(Unauthenticated, publicOf(err, "The client assertion was refused."), err)
	}
	c, err := u.Verify(profile, keys, now)
	if err == nil {
		return c, nil
	}
	if !errors.Is(err, jose.ErrToken) {
		return nil, unavailable(err)
	}
	if e, is := errors.AsType[*jose.Error](err); !is || e.Reason != jose.ReasonSignature {
		_, _ = u.Verify(profile, b.decoys, now)
	}
	return nil, E(Unauthenticated, "The client is not known here, or the client assertion is not signed with a key that is registered for it.", err)
}

// verifyAssertion is the one check of client assertions, of principals and of
// sandboxes: iss = sub = client, aud the issuer alone, short-lived, used once.
// What it claims is remembered for minutes, so the client's rates come first.
func (b *Broker) verifyAssertion(ctx context.Context, assertion, sub string, key jose.KeySource, rates ...Rate) error {
	c, err := b.verifySigned(assertion, jose.Profile{
		Types: []string{"JWT", "client-authentication+jwt"}, AllowNoType: true,
		Algs:   []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519, jose.RS256, jose.PS256},
		Issuer: sub, Audience: b.cfg.Issuer,
		MaxLifetime: assertionLife + skew, Leeway: skew,
	}, key)
	if err != nil {
		return err
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
		rate, cancel := context.WithTimeout(ctx, proofTime)
		defer cancel()
		_, err := b.cfg.Ledger.Admit(rate, Admission{Rates: rates})
		if r, ok := errors.AsType[*RateError](err); ok {
			return tooOften(r)
		}
		if err != nil {
			return &unclaimedError{unavailable(err), err}
		}
	}
	claim, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	_, err = b.cfg.Ledger.Admit(claim, Admission{Claims: []Claim{{
		Key: "ca:" + hashOf(sub, c.ID), Value: "1", Until: c.Expiry.Add(skew),
	}}})
	switch {
	case errors.Is(err, ErrForgotten):
		return &unclaimedError{forgottenError(err), err}
	case errors.Is(err, ErrClaimed):
		return E(Unauthenticated, "The client assertion was used before. Sign a new one for each request.", err)
	case err != nil:
		return &unclaimedError{unavailable(err), err}
	}
	return nil
}

// unclaimedError is for an assertion that is good, of which the ledger cannot say whether
// it was used before.
type unclaimedError struct {
	refusal *Error
	cause   error
}

// Error implements error.
func (e *unclaimedError) Error() string { return e.refusal.Error() }

// Unwrap is for those to whom it is an Error as any other.
func (e *unclaimedError) Unwrap() error { return e.refusal }
