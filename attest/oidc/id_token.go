package oidc

import (
	"errors"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

var _ attest.Personal = (*Attestor)(nil)

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
