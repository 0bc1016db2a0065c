package jose_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
)

// p25519 is the prime of the field, 2^255-19.
var p25519 = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))

// encodeEd25519 writes a y coordinate and a sign bit as RFC 8032 section 5.1.2 does. y may be p or more.
func encodeEd25519(y *big.Int, sign byte) ed25519.PublicKey {
	b := y.FillBytes(make([]byte, ed25519.PublicKeySize))
	slices.Reverse(b)
	b[31] |= sign << 7
	return b
}

// weakEd25519 is every encoding that must be refused: each y coordinate of the points of small order,
// found here from the curve's equation, and each y of p or more, all with both signs.
func weakEd25519(t *testing.T) map[string]ed25519.PublicKey {
	t.Helper()
	one := big.NewInt(1)
	mod := func(x *big.Int) *big.Int { return x.Mod(x, p25519) }
	// A point (x, y) of order 8 doubles to one of order 4, whose y is 0: y^2 = -x^2 there. With the
	// curve -x^2 + y^2 = 1 + d x^2 y^2 that is 2 y^2 = 1 - d y^4.
	d := mod(new(big.Int).Mul(big.NewInt(-121665), new(big.Int).ModInverse(big.NewInt(121666), p25519)))
	ys := []*big.Int{big.NewInt(0), one, new(big.Int).Sub(p25519, one)}
	root := new(big.Int).ModSqrt(mod(new(big.Int).Add(one, d)), p25519)
	for _, r := range []*big.Int{root, new(big.Int).Neg(root)} {
		square := mod(new(big.Int).Mul(mod(new(big.Int).Sub(r, one)), new(big.Int).ModInverse(d, p25519)))
		if y := new(big.Int).ModSqrt(square, p25519); y != nil {
			ys = append(ys, y, new(big.Int).Sub(p25519, y))
		}
	}
	if len(ys) != 5 {
		t.Fatalf("got %d y coordinates of small order, want 5", len(ys))
	}
	for i := range int64(19) {
		ys = append(ys, new(big.Int).Add(p25519, big.NewInt(i)))
	}
	out := map[string]ed25519.PublicKey{}
	for _, y := range ys {
		for sign := range byte(2) {
			out[fmt.Sprintf("y=%x sign=%d", y, sign)] = encodeEd25519(y, sign)
		}
	}
	return out
}

//ebb:invariant I6 An Ed25519 key of small order or non-canonical encoding proves no possession in a JWK, a DPoP proof or a key set
func TestWeakEd25519Keys(t *testing.T) {
	t.Parallel()
	for name, k := range weakEd25519(t) {
		if got, err := jose.NewKey("", k); err == nil {
			t.Errorf("NewKey, %s: got %+v, want an error", name, got)
		}
		jwk := `{"kty":"OKP","crv":"Ed25519","x":"` + base64.RawURLEncoding.EncodeToString(k) + `"}`
		if got, err := jose.ParseJWK([]byte(jwk)); err == nil {
			t.Errorf("ParseJWK, %s: got %+v, want an error", name, got)
		}
		if got, err := jose.Thumbprint(k); err == nil {
			t.Errorf("Thumbprint, %s: got %s, want an error", name, got)
		}
		set, err := jose.ParseJWKS([]byte(`{"keys":[` + jwk + `]}`))
		if err != nil || len(set.Keys()) != 0 {
			t.Errorf("ParseJWKS, %s: got %d keys, %v; want none", name, len(set.Keys()), err)
		}
	}
}

// TestWeakEd25519IsForged shows why keys of small order are refused: with them, crypto/ed25519 accepts
// the signature R = identity, S = 0 for messages that were never signed.
func TestWeakEd25519IsForged(t *testing.T) {
	t.Parallel()
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1
	forgeable := 0
	for _, k := range weakEd25519(t) {
		for i := range 200 {
			if ed25519.Verify(k, fmt.Appendf(nil, "message %d", i), forged) {
				forgeable++
				break
			}
		}
	}
	if forgeable < 8 {
		t.Errorf("got %d forgeable encodings, want the 8 points at least", forgeable)
	}
}

func TestStrongEd25519Keys(t *testing.T) {
	t.Parallel()
	for _, digits := range []string{ // RFC 8032 section 7.1, tests 1 to 3
		"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
		"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
		"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
	} {
		k, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jose.NewKey("", ed25519.PublicKey(k)); err != nil {
			t.Errorf("%s: %v", digits, err)
		}
	}
}
