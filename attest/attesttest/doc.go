// Package attesttest is the test suite that every kind of attestor passes, with an
// OpenID Connect issuer and other doubles for tests that need tokens.
//
//	suite.go   Suite and Run: what a kind must supply to be tested
//	checks.go  the tests, one for each promise of attest.Attestor
//	tokens.go  Tokens: invalid tokens that every kind of JWT must reject
//	hostile.go documents that every kind must reject: garbage, altered, oversized
//	issuer.go  Issuer: a key endpoint over HTTP, key rotation, any header and claim
//	forge.go   Forge and PublicJWK: tokens and proofs that an honest signer never makes
//	doubles.go Clock: set by the test; Log: concurrent writes; Bounded: refuses
//	           expensive work; Trap: a listener that counts connections
package attesttest
