// Package attesttest is the suite that every kind of attestor passes, and an
// OpenID Connect issuer for the tests of whoever needs tokens.
//
//	suite.go   Suite and Run: what attest.Attestor promises
//	checks.go  each of these promises as a test
//	tokens.go  Tokens: what is bad in a token for every kind that judges JWTs
//	hostile.go the evidence that Run makes itself: garbage, tampered, oversized
//	issuer.go  Issuer: keys at a real HTTP address, rotation, any header and claim
//	forge.go   Forge and PublicJWK: tokens and proofs that nothing honest would sign
//	clock.go   Clock: time that stands still until it is set
//	bound.go   Bounded: a kind is told no before what costs others
//	log.go     Log: text that is read while others write it
//	trap.go    Trap: a listener that counts who connects
package attesttest
