// Package attesttest is the test suite that every kind of attestor passes, with an
// OpenID Connect issuer and other doubles for tests that need tokens.
//
// A kind supplies a Suite, and Run makes one test for each promise of attest.Attestor.
// Tokens holds invalid tokens that every kind of JWT must reject; Hostile documents are
// garbage, altered or oversized. Issuer serves keys over HTTP and signs any header and
// claim. Forge makes tokens and proofs that an honest signer never makes. The other
// doubles are a clock, a log, a refusal of expensive work, and a listener that counts
// connections.
package attesttest
