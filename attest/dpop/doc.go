// Package dpop checks and makes DPoP proofs (RFC 9449): one signed statement
// that whoever sends this request holds this key.
//
//	check.go  Check: the steps of RFC 9449, section 4.3, cheapest first, the
//	          signature before the nonce
//	htu.go    comparing the URL of a proof with the configured public URL
//	nonce.go  Nonces: stateless server nonces, good on every replica
//	memory.go Memory: which proofs a server may have forgotten, and the nonce of the others
//	proof.go  NewProof, for clients
//	errors.go ErrProof and ErrNonce
//
// Check keeps no memory. Its caller must claim Proof.ReplayKey in a store that
// all replicas share, until Proof.Until, and refuse a second claim
// (RFC 9449, section 11.1) and what its Memory does not cover. It must also compare
// Proof.JKT with the key that the access token is bound to.
package dpop
