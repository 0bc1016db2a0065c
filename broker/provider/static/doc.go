// Package static uses secrets that cannot be narrowed or revoked: API keys, TLS client
// certificates, and client secrets for a token endpoint. A sandbox never gets one. Mint returns a
// placeholder that names its lease. The egress proxy adds the secret to a request after it has
// left the sandbox, only for the configured hosts, methods and paths of the lease's scopes.
//
// The secret comes from ebb's secret store or from Vault's KV engine, and is added to a
// header, to Basic or to the query. A client certificate is used on connections to the
// configured hosts. Responses of configured routes may contain credentials, which stay in
// ebb. CheckSetup checks that the secret exists and can be added to requests.
//
// The secret is read for each request, so that a change or a removal takes effect at once.
// Revocation is complete because the secret never leaves ebb.
package static
