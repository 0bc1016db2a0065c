// Package attesttest is the suite that every kind of attestor passes, and an
// OpenID Connect issuer for the tests of whoever needs tokens.
//
//	suite.go   Suite and Run: what attest.Attestor promises, as tests
//	hostile.go the evidence that Run makes itself: garbage, tampered, oversized
//	issuer.go  Issuer: keys at a real HTTP address, rotation, any header and claim
//	forge.go   Forge and PublicJWK: tokens and proofs that nothing honest would sign
//	clock.go   Clock: time that stands still until it is set
//	trap.go    Trap: a listener that counts who connects
package attesttest
