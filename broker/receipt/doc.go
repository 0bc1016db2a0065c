// Package receipt is what a completed task leaves behind as proof: which
// credentials it had at third parties, and how each is known to be dead, signed by
// the broker. Whoever holds a receipt and the broker's public keys can check it
// without the broker. It is pure: no clock, no I/O.
//
//	receipt.go  Receipt, and what may stand in one
//	sign.go     Sign and Verify: the one encoding, a JWS (RFC 7515)
//
// A receipt claims nothing that is not known. "complete" means that every
// credential is dead, by the word of its provider, by use that was refused, or by
// its own expiry; a person's word alone does not make it so.
package receipt
