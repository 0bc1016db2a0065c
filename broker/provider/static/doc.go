// Package static serves secrets that cannot be cut down or taken back: API keys, client certificates
// that ebb shows when it connects, and what a client logs in with at a token endpoint. A sandbox
// never gets one. What is minted is a placeholder that names its lease; the
// egress proxy adds the secret to a request after it has left the sandbox, for the
// configured hosts, methods and paths of the lease's scopes, and for nothing else.
//
//	config.go       Config, and what is wrong with one
//	place.go        where in a request the secret goes: header, Basic, query
//	request.go      which requests scopes stand for
//	source.go       where the secret is: ebb's safe, or Vault's KV engine
//	driver.go       Driver: Check, Mint, Revoke, Traits
//	effect.go       Describe: what a scope lets its holder do
//	inject.go       Inject
//	certificate.go  Presents: the client certificate that hosts are shown
//	seal.go         Seals: routes whose answers make credentials, which stay in ebb
//	setup.go        CheckSetup: is the secret there, and does it fit
//
// The secret is read for each request: a new one holds at once, and one that was
// removed is gone at once. Revocation is complete, because nobody has it.
package static
