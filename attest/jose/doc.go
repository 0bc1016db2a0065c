// Package jose is the strict gate in front of golang-jwt v5 and the only
// package of ebb that touches compact JWS (RFC 7515), JWT (RFC 7519) and JWK
// (RFC 7517). golang-jwt accepts unknown crit, b64:false, duplicate and
// case-folded members and string dates (RFC 8725, section 3, is the list of
// what that costs), so its parser is never used: only its signing methods are,
// on bytes that this gate has already understood completely.
//
// The path of one token through Verify, and the file of each step:
//
//	gate.go     size, three strict base64url parts, header and payload as one
//	            JSON object each (Parse)
//	strict.go   the JSON rules: duplicates, look-alike names, depth, members
//	header.go   alg allow-list, typ, kid, and every parameter that is refused
//	headers.go  Headers: those that were understood before
//	claims.go   registered claims, typed once, from the strictly decoded object
//	profile.go  what one kind of token must look like; the checks before the key
//	verify.go   the key, the signature, the result
//	key.go      public keys: algorithms they may verify, RFC 7638 thumbprint
//	ed25519.go  Ed25519 keys that anybody could sign for, refused
//	public.go   the members of a JWK to a Go key and back
//	jwk.go      JWK and JWK Set, in and out
//	cache.go    KeyCache: the keys of one issuer, from one pinned place
//	sign.go     the other direction: Sign
//	errors.go   ErrToken, ErrKeyUnknown, the fixed set of reasons
//
// # What must never be a replay key
//
// An ECDSA signature (r, s) has a twin (r, n-s) that verifies as well, so the
// text of a token is not unique. Use Claims.Digest, the hash of the signing
// input, or the jti; never the token.
package jose
