// Package receipt holds the revocation receipt of a completed task: the credentials that the task
// had at third parties, and the evidence that each is dead, signed by the broker. A receipt can be
// checked with the broker's public keys alone. The package is pure: it has no clock and no I/O.
//
//	receipt.go  Receipt and its bounds
//	sign.go     Sign and Verify: the one encoding, a JWS (RFC 7515)
//
// A receipt states known facts only. "complete" means that every credential is dead: its provider
// confirmed that, a use of it was refused, or it has expired. The word of a person does not make a
// receipt complete.
package receipt
