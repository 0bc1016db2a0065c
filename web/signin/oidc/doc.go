// Package oidc signs in with an OpenID Connect provider: the authorization code flow with
// PKCE (OpenID Connect Core 1.0 section 3.1, RFC 7636, RFC 9700).
//
//	oidc.go      Config, New; the Method
//	provider.go  what the provider says of itself
//	begin.go     the way out: what binds the answer to this browser
//	finish.go    the way back: the code for a token
//	token.go     what a token must say
//	person.go    who that is: id, roles, groups
package oidc
