package jose

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"slices"
)

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
