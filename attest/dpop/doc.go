// Package dpop checks and makes DPoP proofs (RFC 9449): one signed statement
// that the sender of this request holds this key.
//
// Check takes the steps of RFC 9449, section 4.3, the cheapest first and the signature
// before the nonce. It compares the URL of a proof with the configured public URL.
// Nonces are stateless, so that every replica accepts them. A Memory knows which proofs
// a server may have forgotten. NewProof makes a proof for a client.
//
// Check keeps no memory. Its caller must claim Proof.ReplayKey in a store that
// all replicas share, until Proof.Until, and refuse a second claim
// (RFC 9449, section 11.1) and what its Memory does not cover. It must also compare
// Proof.JKT with the key that the access token is bound to.
package dpop
