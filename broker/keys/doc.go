// Package keys holds the signing keys of ebb itself and the secret from which
// its symmetric keys derive.
//
// The life of a signing key, and what the others see of it:
//
//	created ---- published ----> ActiveFrom ---- signs ----> successor's ActiveFrom ---- verifies ----> forgotten
//	             (Lead, at least twice the JWKS max-age)                              (Grace)
//
// The files:
//
//	key.go     Key: a jose.Signer with its dates, wherever the private key lives
//	ring.go    Ring: who signs now, what the JWKS lists, what still verifies
//	secret.go  the 32-byte secret and Ring.Derive (HKDF-SHA256, RFC 5869)
//	file.go    the stored encoding of one key: text head and PKCS#8 PEM
//	dir.go     Dir: a directory of such files, shared by several replicas
//	rotate.go  Dir.Maintain and Dir.Rotate: reload, next key, archive
//	mark.go    high-water marks of the audit log, kept beside the keys
//
// Package secret writes and reads the files: once, completely, durably, and with no permissions for others.
//
// A key that lives elsewhere (KMS, Vault transit) needs no Dir: NewRing takes
// any jose.Signer, and Ring.Replace takes the set after a rotation there.
package keys
