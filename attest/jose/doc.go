// Package jose parses and checks tokens strictly before golang-jwt v5 verifies their
// signatures. It is the only package of ebb that handles compact JWS (RFC 7515), JWT (RFC
// 7519) and JWK (RFC 7517). golang-jwt accepts unknown crit, b64:false, duplicate and
// case-folded members, and dates that are strings (RFC 8725, section 3, lists the resulting
// attacks). Therefore ebb never uses its parser. It uses only its signing methods, on bytes
// that this package has already parsed completely.
//
// Verify takes a token through these steps:
//
//  1. Parse: the size, three strict base64url parts, and one JSON object each for
//     header and payload, without duplicate names or names that differ in letter case.
//  2. The header: the allowed algorithms, typ and kid. Every other parameter is
//     refused.
//  3. The claims: the registered claims are converted to their types once, from the
//     strictly decoded object.
//  4. The Profile of one kind of token: the checks that need no key.
//  5. The key, from a KeyCache with one configured source, and then the signature.
//
// Keys are read and written as JWK and JWK Set. Ed25519 keys for which a signature can be
// made without the private key are refused. Sign makes tokens. Every refusal has one of a
// fixed set of reasons. IsToken68 checks a token of an HTTP header, JWT or not.
//
// # What must never be a replay key
//
// For every ECDSA signature (r, s), the signature (r, n-s) is valid too, so the text of a
// token is not unique. Replay keys must be Claims.Digest, which is the hash of the signing
// input, or the jti; never the token.
package jose
