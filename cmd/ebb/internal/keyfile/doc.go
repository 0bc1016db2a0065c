// Package keyfile reads and writes the private keys of clients: operators,
// runners, approvers and sandboxes. It is their whole identity on the wire
// (private_key_jwt and DPoP), so a file that others can read is refused.
//
//	keyfile.go  File, Read, Write: PKCS#8 in PEM with a head of "name: value"
//	            lines (RFC 7468 section 2 calls them explanatory text), so that
//	            openssl reads the same file
//	new.go      New: a fresh P-256 or Ed25519 key
package keyfile
