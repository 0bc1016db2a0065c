package jose

import (
	"crypto"
	"crypto/rsa"
	_ "crypto/sha256" // ES256, RS256, PS256
	_ "crypto/sha512" // the 384 and 512 bit families
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// KeySource finds the key for a header. It returns KeyUnknown() when it has
// none, and any other error when it could not look. Nothing but h.KID and h.Alg
// may steer it.
type KeySource func(h Header) (Key, error)

// Verify parses a token, checks it against the profile and verifies its
// signature. Errors that match ErrToken are the caller's fault (ErrKeyUnknown
// among them); errors of keys pass through unchanged.
func Verify(token string, p Profile, keys KeySource, now time.Time) (*Claims, error) {
	u, err := Parse(token, p.Limits)
	if err != nil {
		return nil, err
	}
	return u.Verify(p, keys, now)
}

// Check is Verify without the signature: for a token that its issuer is going to be
// asked about. The claims are not authenticated.
func (u *Unverified) Check(p Profile, now time.Time) (*Claims, error) {
	if err := p.check(u.claims, now); err != nil {
		return nil, err
	}
	return u.claims, nil
}

// Verify is the second half of the function Verify.
func (u *Unverified) Verify(p Profile, keys KeySource, now time.Time) (*Claims, error) {
	if _, err := u.Check(p, now); err != nil {
		return nil, err
	}
	k, err := keys(u.claims.Header)
	if err != nil {
		return nil, err
	}
	if err := k.verify(u.claims.Header.Alg, u.claims.signingInput, u.signature); err != nil {
		return nil, err
	}
	p.passed("signature", u.claims.Header.KID)
	return u.claims, nil
}

func (k Key) verify(a Alg, signingInput string, sig []byte) error {
	m := method(a)
	if m == nil || !k.allows(a) {
		return refuse(ReasonAlgorithm, "the signature algorithm of the token does not suit its key")
	}
	if m.Verify(signingInput, sig, k.Public) != nil {
		return refuse(ReasonSignature, "the signature of the token is not valid")
	}
	return nil
}

// method maps the allow-list to golang-jwt. Its own registry is not consulted:
// it is mutable and holds "none" and HMAC.
func method(a Alg) jwt.SigningMethod {
	switch a {
	case ES256:
		return jwt.SigningMethodES256
	case ES384:
		return jwt.SigningMethodES384
	case ES512:
		return jwt.SigningMethodES512
	case EdDSA, Ed25519:
		return jwt.SigningMethodEdDSA
	case RS256:
		return jwt.SigningMethodRS256
	case RS384:
		return jwt.SigningMethodRS384
	case RS512:
		return jwt.SigningMethodRS512
	case PS256:
		return pss(jwt.SigningMethodPS256, crypto.SHA256)
	case PS384:
		return pss(jwt.SigningMethodPS384, crypto.SHA384)
	case PS512:
		return pss(jwt.SigningMethodPS512, crypto.SHA512)
	}
	return nil
}

// pss pins the salt to the length of the hash (RFC 7518, section 3.5); golang-jwt
// accepts any on verification.
func pss(m *jwt.SigningMethodRSAPSS, h crypto.Hash) jwt.SigningMethod {
	opts := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: h}
	return &jwt.SigningMethodRSAPSS{SigningMethodRSA: m.SigningMethodRSA, Options: opts, VerifyOptions: opts}
}
