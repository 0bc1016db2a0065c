package jose

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/big"
	"slices"
)

// Alg is a JWS signature algorithm (RFC 7518, section 3.1; RFC 8037; RFC 9864). There are no
// constants for "none" and HMAC, so that no code can use them.
type Alg string

// The algorithms. Ed25519 is the fully specified name in RFC 9864 for EdDSA of RFC 8037.
// Clients send either.
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
	// Algs are the algorithms that this key may be used with.
	Algs []Alg
	// Use is "sig", "" or a profile's own value such as "jwt-svid".
	Use string
	// Public is *ecdsa.PublicKey, ed25519.PublicKey or *rsa.PublicKey.
	Public crypto.PublicKey
}

const (
	minRSABits = 2048 // RFC 7518, section 3.3
	maxRSABits = 8192 // the time of a verification grows with the square
)

var errKeyType = errors.New("jose: the public key is not P-256, P-384, P-521, Ed25519 (canonical, not of small order) or RSA of 2048 to 8192 bits")

// NewKey returns a Key for every algorithm that pub supports.
func NewKey(kid string, pub crypto.PublicKey) (Key, error) {
	if kid != "" && !validKID(kid) {
		return Key{}, errors.New("jose: the key id is not 1 to 256 printable characters")
	}
	algs, err := algsFor(pub)
	if err != nil {
		return Key{}, err
	}
	if ec, ok := pub.(*ecdsa.PublicKey); ok {
		if _, err := ec.Bytes(); err != nil { // the point is not on the curve
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

// Thumbprint returns the RFC 7638 JWK thumbprint with SHA-256, base64url without padding:
// the jkt of RFC 9449. It depends on the key alone, not on the encoding of a JWK.
func Thumbprint(pub crypto.PublicKey) (string, error) {
	core, err := encodePublic(pub)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(core)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// Thumbprint returns the key's RFC 7638 thumbprint; see the function.
func (k Key) Thumbprint() (string, error) { return Thumbprint(k.Public) }

// strongEd25519 reports whether k may be used as an Ed25519 public key. It refuses two kinds of
// encodings that crypto/ed25519 accepts:
//
//   - a y coordinate of p = 2^255-19 or more, which RFC 8032 section 5.1.3 forbids: it is a
//     second spelling of a key, with a thumbprint of its own;
//   - the eight points of small order, with either sign bit: a signature for such a key can be
//     made without a private key, and one signature holds for every message or for every eighth.
//
// Whether a point with that y coordinate exists is left to the signature check, which fails if not.
func strongEd25519(k ed25519.PublicKey) bool {
	if len(k) != ed25519.PublicKeySize {
		return false
	}
	y := slices.Clone(k)
	slices.Reverse(y) // RFC 8032 section 3: little-endian
	y[0] &^= 0x80     // the sign of x
	return bytes.Compare(y, fieldPrime) < 0 && !slices.ContainsFunc(smallOrder, func(s []byte) bool { return bytes.Equal(y, s) })
}

// fieldPrime is p = 2^255-19, big-endian.
var fieldPrime = octetsOf("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed")

// smallOrder has the y coordinates of all points whose order divides 8, big-endian.
var smallOrder = [][]byte{
	octetsOf("0000000000000000000000000000000000000000000000000000000000000001"), // order 1
	octetsOf("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffec"), // order 2: -1
	octetsOf("0000000000000000000000000000000000000000000000000000000000000000"), // order 4, two points
	octetsOf("05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826"), // order 8, two points
	octetsOf("7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7"), // order 8, two points: the negative
}

func octetsOf(digits string) []byte {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err) // a constant of this file
	}
	return b
}

// curve returns a curve and the size of its coordinates in bytes (RFC 7518, section 6.2.1).
func curve(crv string) (elliptic.Curve, int) {
	switch crv {
	case "P-256":
		return elliptic.P256(), 32
	case "P-384":
		return elliptic.P384(), 48
	case "P-521":
		return elliptic.P521(), 66
	}
	return nil, 0
}

// decodePublic returns the key in the members of a JWK. go-jose needs five times as long,
// for every DPoP proof, and accepts base64url that is not strict.
func decodePublic(m members) (crypto.PublicKey, error) {
	kty, _ := text(m["kty"])
	crv, _ := text(m["crv"])
	switch {
	case kty == "EC":
		c, size := curve(crv)
		x, y := octets(m, "x"), octets(m, "y")
		if c == nil || len(x) != size || len(y) != size {
			return nil, errKeyType
		}
		pub, err := ecdsa.ParseUncompressedPublicKey(c, append(append([]byte{4}, x...), y...))
		if err != nil {
			return nil, errKeyType
		}
		return pub, nil
	case kty == "OKP" && crv == "Ed25519":
		return ed25519.PublicKey(octets(m, "x")), nil
	case kty == "RSA":
		n, e := octets(m, "n"), octets(m, "e")
		// Leading zeros would give one key several encodings (RFC 7518, section 2).
		if len(n) == 0 || len(n) > maxRSABits/8 || n[0] == 0 || len(e) == 0 || len(e) > 4 || e[0] == 0 || e[0] > 127 && len(e) == 4 {
			return nil, errKeyType
		}
		wide := make([]byte, 4)
		copy(wide[4-len(e):], e)
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(binary.BigEndian.Uint32(wide))}, nil
	}
	return nil, errKeyType
}

// octets returns the value of a member in strict base64url; nil when it is not one.
func octets(m members, name string) []byte {
	s, ok := text(m[name])
	if !ok || len(s) > 2*maxRSABits/8 {
		return nil
	}
	for i := 0; i < len(s); i++ {
		if s[i] == '\n' || s[i] == '\r' { // the decoder skips them
			return nil
		}
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

// encodePublic encodes the required members in lexicographic order without white space. The
// result is the input of the hash in RFC 7638, section 3, and a minimal JWK.
func encodePublic(pub crypto.PublicKey) ([]byte, error) {
	if _, err := algsFor(pub); err != nil {
		return nil, err
	}
	b64 := base64.RawURLEncoding.AppendEncode
	out := make([]byte, 0, 192)
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			return nil, errKeyType
		}
		size := (len(point) - 1) / 2
		out = append(append(append(out, `{"crv":"`...), k.Params().Name...), `","kty":"EC","x":"`...)
		out = append(b64(out, point[1:1+size]), `","y":"`...)
		return append(b64(out, point[1+size:]), `"}`...), nil
	case ed25519.PublicKey:
		out = append(out, `{"crv":"Ed25519","kty":"OKP","x":"`...)
		return append(b64(out, k), `"}`...), nil
	case *rsa.PublicKey:
		out = append(out, `{"e":"`...)
		out = append(b64(out, big.NewInt(int64(k.E)).Bytes()), `","kty":"RSA","n":"`...)
		return append(b64(out, k.N.Bytes()), `"}`...), nil
	}
	return nil, errKeyType
}
