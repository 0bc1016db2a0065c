// Package static uses secrets that cannot be narrowed or revoked: API keys, TLS client
// certificates, and client secrets for a token endpoint. A sandbox never gets one. Mint returns a
// placeholder that names its lease. The egress proxy adds the secret to a request after it has
// left the sandbox, only for the configured hosts, methods and paths of the lease's scopes.
//
//	config.go       Config and its checks
//	place.go        the place of the secret in a request: header, Basic, query
//	request.go      the requests of a scope
//	source.go       the source of the secret: ebb's secret store, or Vault's KV engine
//	driver.go       Driver: Check, Mint, Revoke, Traits, Describe
//	inject.go       Inject
//	certificate.go  Presents: the client certificate for hosts
//	seal.go         Seals: routes whose responses hold credentials, which stay in ebb
//	setup.go        CheckSetup: checks that the secret exists and fits its place
//
// The secret is read for each request, so that a change or a removal takes effect at once.
// Revocation is complete because the secret never leaves ebb.
package static
