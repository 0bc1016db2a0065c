package jose

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
)

// Alg is a JWS signature algorithm (RFC 7518, section 3.1; RFC 8037; RFC 9864).
// There is no "none" and no HMAC: a value that cannot be spelt cannot be used.
type Alg string

// The algorithms. Ed25519 is the fully specified name of RFC 9864 for what
// RFC 8037 calls EdDSA; clients send either.
const (
	ES256   Alg = "ES256"
	ES384   Alg = "ES384"
	ES512   Alg = "ES512"
	EdDSA   Alg = "EdDSA"
	Ed25519 Alg = "Ed25519"
	RS256   Alg = "RS256"
	RS384   Alg = "RS384"
	RS512   Alg = "RS512"
	PS256   Alg = "PS256"
	PS384   Alg = "PS384"
	PS512   Alg = "PS512"
)

// Valid reports whether a is one of the constants.
func (a Alg) Valid() bool { return method(a) != nil }

func (a Alg) canonical() Alg {
	if a == Ed25519 {
		return EdDSA
	}
	return a
}

// Key is a public key that may verify signatures. The zero Key verifies none.
type Key struct {
	// KID is the key id, "" when the key has none.
	KID string
	// Algs that this key may be used with.
	Algs []Alg
	// Use is "sig", "" or a profile's own value such as "jwt-svid".
	Use string
	// Public is *ecdsa.PublicKey, ed25519.PublicKey or *rsa.PublicKey.
	Public crypto.PublicKey
}

const (
	minRSABits = 2048 // RFC 7518, section 3.3
	maxRSABits = 8192 // verification time grows with the square
)

var errKeyType = errors.New("jose: the public key is not P-256, P-384, P-521, Ed25519 (canonical, not of small order) or RSA of 2048 to 8192 bits")

// NewKey wraps a public key for every algorithm that suits it.
func NewKey(kid string, pub crypto.PublicKey) (Key, error) {
	if kid != "" && !validKID(kid) {
		return Key{}, errors.New("jose: the key id is not 1 to 256 printable characters")
	}
	algs, err := algsFor(pub)
	if err != nil {
		return Key{}, err
	}
	if ec, ok := pub.(*ecdsa.PublicKey); ok {
		if _, err := ec.Bytes(); err != nil { // off the curve
			return Key{}, errKeyType
		}
	}
	return Key{KID: kid, Algs: algs, Public: pub}, nil
}

// algsFor returns the algorithms for a key of an accepted type, size and strength. It does not check
// that an ECDSA point is on its curve: decodePublic, NewKey and encodePublic do.
func algsFor(pub crypto.PublicKey) ([]Alg, error) {
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		if k == nil {
			return nil, errKeyType
		}
		switch k.Curve {
		case elliptic.P256():
			return []Alg{ES256}, nil
		case elliptic.P384():
			return []Alg{ES384}, nil
		case elliptic.P521():
			return []Alg{ES512}, nil
		}
	case ed25519.PublicKey:
		if strongEd25519(k) {
			return []Alg{EdDSA, Ed25519}, nil
		}
	case *rsa.PublicKey:
		if k == nil || k.N == nil {
			return nil, errKeyType
		}
		if n := k.N.BitLen(); n >= minRSABits && n <= maxRSABits && k.N.Bit(0) == 1 && k.E >= 3 && k.E&1 == 1 {
			return []Alg{RS256, PS256, RS384, PS384, RS512, PS512}, nil
		}
	}
	return nil, errKeyType
}

func (k Key) allows(a Alg) bool {
	return slices.ContainsFunc(k.Algs, func(b Alg) bool { return a.canonical() == b.canonical() })
}

// Thumbprint is the RFC 7638 JWK thumbprint with SHA-256, base64url without
// padding: the jkt of RFC 9449. It depends on the key alone, not on how a JWK
// spelt it.
func Thumbprint(pub crypto.PublicKey) (string, error) {
	core, err := encodePublic(pub)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(core)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// Thumbprint returns the key's RFC 7638 thumbprint, see the function.
func (k Key) Thumbprint() (string, error) { return Thumbprint(k.Public) }
