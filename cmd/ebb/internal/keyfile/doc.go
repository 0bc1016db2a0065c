// Package keyfile keeps the private key of a client together with the client's
// name: operators, runners, approvers and sandboxes. It is their whole identity
// on the wire (private_key_jwt and DPoP).
//
//	keyfile.go  File, Read, Write: PKCS#8 in PEM with a head of "name: value"
//	            lines (RFC 7468 section 2 calls them explanatory text), so that
//	            openssl and every other reader of PEM reads the same file
package keyfile
