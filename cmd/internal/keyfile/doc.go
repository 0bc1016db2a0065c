// Package keyfile stores the private key of a client together with the client's ID.
// Operators, runners, approvers and sandboxes authenticate with nothing else
// (private_key_jwt and DPoP).
//
//	keyfile.go  File, Read, Write: PKCS#8 in PEM, preceded by "name: value" lines
//	            (explanatory text in RFC 7468 section 2), so that openssl and every
//	            other PEM reader can read the file; Public, PublicJWK
package keyfile
