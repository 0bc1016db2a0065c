package oidc

import (
	"errors"
	"slices"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
)

var _ attest.Personal = (*Attestor)(nil)

// ForPeople implements attest.Personal: OpenID Connect Core section 3.1.3.7, and
// nothing that only tokens of other kinds have.
func (a *Attestor) ForPeople() attest.Attestor {
	b := *a
	b.people = true
	b.profile.IDToken = true
	return &b
}

// notInIDTokens are claims of access tokens (RFC 9068, and those of Okta, Entra ID and Auth0), of
// security event and logout tokens, and of tokens with which somebody else acts for the person.
var notInIDTokens = []string{"scope", "client_id", "events", "scp", "cid", "appid", "appidacr", "azpacr", "gty", "authorization_details", "act"}

// asPerson refuses claims that no ID token has, and returns id with what the token says of the
// sign-in: auth_time and acr, both zero when absent.
func asPerson(c *jose.Claims, id attest.Identity) (attest.Identity, error) {
	no := func(why string) (attest.Identity, error) {
		return attest.Identity{}, attest.Reject(attest.ReasonClaims, "the token is not the ID token of a sign-in at this ebb", errors.New(why))
	}
	if i := slices.IndexFunc(notInIDTokens, c.Has); i >= 0 {
		return no("it has the claim " + notInIDTokens[i])
	}
	// Keycloak and Cognito name the kind of a token in its payload.
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
			return no("acr is not a text")
		}
		id.ACR = acr
	}
	return id, nil
}
