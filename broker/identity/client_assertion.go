package identity

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

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// AuthenticateAssertion authenticates a principal by private_key_jwt (RFC 7523 section 3; RFC
// 7523bis: aud is the issuer alone). clientID, when not empty, must be the assertion's subject
// (RFC 7521 section 4.2). proved is the key that the request proves besides; it is often empty.
func (au *Authenticator) AuthenticateAssertion(ctx context.Context, assertion, clientID string, proved broker.Possession) (broker.Principal, error) {
	p, err := au.assertionPrincipal(ctx, assertion, clientID, proved)
	if e, is := errors.AsType[*broker.Error](err); is && e.Kind == broker.Unauthenticated {
		data := map[string]string{"why": e.Public}
		if cause, is := errors.AsType[*jose.Error](e.Cause); is {
			data["reason"] = string(cause.Reason)
		}
		if errors.Is(e.Cause, errNoClient) {
			data["reason"] = "client_unknown"
		}
		au.log.Note(ctx, au.log.NewEntry(audit.PrincipalRefused, kernel.Unknown, data))
	}
	return p, err
}

func (au *Authenticator) assertionPrincipal(ctx context.Context, assertion, clientID string, proved broker.Possession) (broker.Principal, error) {
	bad := func(public string, cause error) (broker.Principal, error) {
		return broker.Principal{}, broker.E(broker.Unauthenticated, public, cause)
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
	cfg, known := au.principals[sub]
	if known && len(cfg.Keys) > 0 {
		set, err := jose.NewKeySet(cfg.Keys...)
		if err != nil {
			return broker.Principal{}, broker.StoreError(fmt.Errorf("the keys of principal %q: %w", sub, err))
		}
		keys = set.Key
	}
	err = au.verifyAssertion(ctx, assertion, sub, keys, known && au.admission.ProvesKey(proved, cfg.Keys...))
	if u, is := errors.AsType[*kernel.UnclaimedError](err); is && cfg.MayEnd() {
		return cfg.Doubtful(u.Cause), nil
	}
	if err != nil {
		return broker.Principal{}, err
	}
	return cfg.Principal, nil
}

var errNoClient = errors.New("no client with this id has a key")

// noClient is the KeySource of an unknown client: it has no key.
func noClient(jose.Header) (jose.Key, error) {
	return jose.Key{}, errors.Join(errNoClient, jose.KeyUnknown())
}

// NewDecoys returns keys without a holder, one for each algorithm of client assertions.
func NewDecoys() (jose.KeySource, error) {
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

// verifySigned verifies a client assertion. Faults that depend on the assertion alone are
// named. All other faults get one answer, and a signature is verified each time, so that
// neither the answer nor its timing reveals which clients are known here.
func (au *Authenticator) verifySigned(assertion string, profile jose.Profile, keys jose.KeySource) (*jose.Claims, error) {
	now := au.clock.Now()
	u, err := jose.Parse(assertion, profile.Limits)
	if err == nil {
		_, err = u.Check(profile, now)
	}
	if err != nil {
		return nil, broker.E(broker.Unauthenticated, broker.PublicOf(err, "The client assertion was refused."), err)
	}
	c, err := u.Verify(profile, keys, now)
	if err == nil {
		return c, nil
	}
	if !errors.Is(err, jose.ErrToken) {
		return nil, broker.StoreError(err)
	}
	if e, is := errors.AsType[*jose.Error](err); !is || e.Reason != jose.ReasonSignature {
		_, _ = u.Verify(profile, au.decoys, now)
	}
	return nil, broker.E(broker.Unauthenticated, "The client is not known here, or the client assertion is not signed with a key that is registered for it.", err).
		Then("check --client-id and --key: the public key must be in principals of ebb's configuration (keys)", "without configured principals only the keys that ebb serve keeps in its data directory are known")
}

// verifyAssertion checks client assertions of principals and of sandboxes: iss = sub = client,
// aud is the issuer alone, short-lived, used once. Each claim is remembered for minutes, so the
// client's rates are checked first. holder has the meaning that it has in Unremembered.
func (au *Authenticator) verifyAssertion(ctx context.Context, assertion, sub string, key jose.KeySource, holder bool, rates ...broker.Rate) error {
	c, err := au.verifySigned(assertion, jose.Profile{
		Types: []string{"JWT", "client-authentication+jwt"}, AllowNoType: true,
		Algs:   []jose.Alg{jose.ES256, jose.EdDSA, jose.Ed25519, jose.RS256, jose.PS256},
		Issuer: sub, Audience: au.issuerURL,
		MaxLifetime: kernel.AssertionLife + broker.Skew, Leeway: broker.Skew,
	}, key)
	if err != nil {
		return err
	}
	if c.Subject != sub {
		return broker.E(broker.Unauthenticated, "iss and sub of the client assertion must both be the client.", nil)
	}
	if c.ID == "" {
		return broker.E(broker.Unauthenticated, "The client assertion needs a jti.", nil)
	}
	if ahead := c.IssuedAt.Sub(au.clock.Now()); ahead > kernel.AssertionLead {
		return broker.E(broker.Unauthenticated, fmt.Sprintf("The iat of the client assertion is %d s ahead of the clock of ebb. Set the client's clock.", int(ahead.Seconds())), nil)
	}
	if err := au.admission.Unremembered(c, holder); err != nil {
		return err
	}
	if len(rates) > 0 {
		rate, cancel := context.WithTimeout(ctx, kernel.ProofTime)
		defer cancel()
		_, err := au.liveStore.Admit(rate, broker.Admission{Rates: rates})
		if r, ok := errors.AsType[*broker.RateError](err); ok {
			return kernel.TooOften(r)
		}
		if err != nil {
			return &kernel.UnclaimedError{Refusal: broker.StoreError(err), Cause: err}
		}
	}
	claim, cancel := context.WithTimeout(ctx, kernel.ProofTime)
	defer cancel()
	_, err = au.liveStore.Admit(claim, broker.Admission{Claims: []broker.Claim{{
		Key: "ca:" + broker.HashOf(sub, c.ID), Value: "1", Until: c.Expiry.Add(broker.Skew),
	}}})
	switch {
	case errors.Is(err, broker.ErrForgotten):
		return &kernel.UnclaimedError{Refusal: kernel.ForgottenError(err), Cause: err}
	case errors.Is(err, broker.ErrClaimed):
		return broker.E(broker.Unauthenticated, "The client assertion was used before. Sign a new one for each request.", err)
	case err != nil:
		return &kernel.UnclaimedError{Refusal: broker.StoreError(err), Cause: err}
	}
	return au.admission.Unremembered(c, holder) // the live store may have lost data meanwhile
}
