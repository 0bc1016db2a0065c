// Package oauth hands out access tokens that an OAuth 2.0 authorization server
// gives for a refresh token, or for the client itself. The refresh token stays in
// the secret store, sealed; sandboxes see access tokens alone, of narrowed scope.
//
// The driver authenticates to the endpoints as the configured client and parses their
// answers strictly (RFC 6749 section 5). The egress proxy adds the token to the
// requests of the lease's scopes. Revoke follows RFC 7009, Probe RFC 7662.
//
// A refresh token may be used once (rotation, RFC 9700 section 4.14): exchanges of
// one take turns across replicas, and the successor is kept before anything is
// answered. Two at a time would look like theft, and the server would end them all.
package oauth
