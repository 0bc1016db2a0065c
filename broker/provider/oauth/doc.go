// Package oauth issues access tokens that an OAuth 2.0 authorization server issues for a
// refresh token or for client credentials. The refresh token stays in the secret store,
// sealed. Sandboxes get only access tokens with narrowed scopes.
//
// The driver authenticates to the endpoints as the configured client and parses their
// answers strictly (RFC 6749 section 5). The egress proxy adds the token to the
// requests of the lease's scopes. Revoke follows RFC 7009, Probe RFC 7662.
//
// A refresh token may be valid for one use only (rotation, RFC 9700 section 4.14). Replicas
// therefore exchange one token one after the other, and store its successor before they use
// the response. Two exchanges at the same time would look like theft, and the server would
// revoke all tokens.
package oauth
