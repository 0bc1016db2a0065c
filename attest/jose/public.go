package jose

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/binary"
	"math/big"
)

// Curves and the size of their coordinates in bytes (RFC 7518, section 6.2.1).
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

// decodePublic builds the key from the members of a JWK. go-jose does the same
// in five times the time, which every DPoP proof would pay, and takes base64url
// that is not strict.
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
		// Leading zeros would give one key several spellings (RFC 7518, section 2).
		if len(n) == 0 || len(n) > maxRSABits/8 || n[0] == 0 || len(e) == 0 || len(e) > 4 || e[0] == 0 || e[0] > 127 && len(e) == 4 {
			return nil, errKeyType
		}
		wide := make([]byte, 4)
		copy(wide[4-len(e):], e)
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(binary.BigEndian.Uint32(wide))}, nil
	}
	return nil, errKeyType
}

// octets is the strict base64url value of a member; nil when it is not one.
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

// encodePublic prints the required members in lexicographic order without
// blanks: what RFC 7638, section 3, hashes, and a minimal JWK.
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
