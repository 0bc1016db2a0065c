// Package oidc signs in with an OpenID Connect provider: the authorization code
// flow with PKCE (OpenID Connect Core 1.0 section 3.1, RFC 7636, RFC 9700).
//
// A sign-in begins with a redirect to the provider, bound to the browser by a
// cookie. The provider's callback brings a code, ebb exchanges it for tokens,
// and attest/jose verifies the ID token with the provider's published keys.
package oidc
