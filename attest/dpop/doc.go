// Package dpop checks and makes DPoP proofs (RFC 9449). A proof is a signed statement that
// the sender of a request holds a key.
//
// Check performs the steps of RFC 9449, section 4.3, the cheapest first and the signature
// before the nonce. It compares the URL of a proof with the configured public URL. Nonces
// are stateless, so that every replica accepts them. A Memory records which proofs a server
// may have forgotten. NewProof makes a proof for a client.
//
// Check stores no proofs. Its caller must claim Proof.ReplayKey until Proof.Until in a store
// that all replicas share, and must refuse a second claim (RFC 9449, section 11.1). The
// caller must also refuse proofs that its Memory does not cover, and must compare Proof.JKT
// with the key that the access token is bound to.
package dpop
