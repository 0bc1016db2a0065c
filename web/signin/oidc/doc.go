// Package oidc signs in with an OpenID Connect provider: the authorization code
// flow with PKCE (OpenID Connect Core 1.0 section 3.1, RFC 7636, RFC 9700).
//
//	oidc.go      Config, New; the Method
//	provider.go  the provider's metadata
//	begin.go     the redirect to the provider, bound to this browser
//	finish.go    the callback: exchange of the code for tokens
//	token.go     validation of the ID token
//	keyset.go    the keys that verify tokens
//	person.go    the person: id, roles, groups
package oidc
