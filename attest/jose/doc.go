// Package jose is the strict gate in front of golang-jwt v5 and the only
// package of ebb that touches compact JWS (RFC 7515), JWT (RFC 7519) and JWK
// (RFC 7517). golang-jwt accepts unknown crit, b64:false, duplicate and
// case-folded members and string dates (RFC 8725, section 3, is the list of
// what that costs), so its parser is never used: only its signing methods are,
// on bytes that this gate has already understood completely.
//
// Verify takes a token through these steps:
//
//  1. Parse: the size, three strict base64url parts, and one JSON object each for
//     header and payload, without duplicate or look-alike names.
//  2. The header: the allowed algorithms, typ and kid. Every other parameter is
//     refused.
//  3. The claims: the registered ones get their types once, from the strictly
//     decoded object.
//  4. The Profile of one kind of token: the checks that need no key.
//  5. The key, from a KeyCache of one pinned place, and then the signature.
//
// Keys are read and written as JWK and JWK Set. Ed25519 keys for which anybody could
// sign are refused. Sign makes tokens. Every refusal has one of a fixed set of reasons.
//
// # What must never be a replay key
//
// An ECDSA signature (r, s) has a twin (r, n-s) that verifies as well, so the
// text of a token is not unique. Use Claims.Digest, the hash of the signing
// input, or the jti; never the token.
package jose
