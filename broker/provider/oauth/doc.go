// Package oauth hands out access tokens that an OAuth 2.0 authorization server
// gives for a refresh token, or for the client itself. The refresh token stays in
// the secret store, sealed; sandboxes see access tokens alone, of narrowed scope.
//
//	config.go  Config: endpoints, client authentication, which scope an action is
//	client.go  one call to an endpoint: authentication, strict answers, errors
//	token.go   the answer of a token endpoint (RFC 6749 section 5)
//	driver.go  Driver: Check, Mint, Traits, Describe
//	inject.go  Injects, Inject: which requests egress adds a token to
//	revoke.go  Revoke (RFC 7009) and Probe (RFC 7662)
//	setup.go   CheckSetup
//
// A refresh token may be used once (rotation, RFC 9700 section 4.14): exchanges of
// one take turns across replicas, and the successor is kept before anything is
// answered. Two at a time would look like theft, and the server would end them all.
package oauth
