package jose

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Signer has a private key, in memory or in a KMS. It is crypto.Signer: for ECDSA, Sign
// returns ASN.1. It must be safe for concurrent use. P-256, Ed25519 and RSA keys are
// supported.
type Signer = crypto.Signer

// SignHeader is the header of a token to be signed.
type SignHeader struct {
	// Type is typ. It is required, because ebb issues no token without a type.
	Type string
	// KID is kid, "" for none.
	KID string
	// EmbedKey puts the public key into jwk: DPoP proofs only.
	EmbedKey bool
}

// AlgOf returns the algorithm that Sign uses with this public key: ES256 for
// P-256, EdDSA for Ed25519, RS256 for RSA.
func AlgOf(pub crypto.PublicKey) (Alg, error) {
	algs, err := algsFor(pub)
	if err != nil {
		return "", err
	}
	switch algs[0] {
	case ES256, EdDSA, RS256:
		return algs[0], nil
	}
	return "", errors.New("jose: sign with a P-256, Ed25519 or RSA key")
}

// Sign marshals the claims with encoding/json and returns a compact JWS. Struct fields keep
// their order and map keys are sorted, so that equal claims give equal bytes. A
// json.RawMessage is signed unchanged. An error of Sign is never caused by the token's
// bearer.
func Sign(s Signer, h SignHeader, claims any) (string, error) {
	if h.Type == "" {
		return "", errors.New("jose: sign: the header needs a type")
	}
	pub := s.Public()
	alg, err := AlgOf(pub)
	if err != nil {
		return "", err
	}
	headJSON, err := h.encode(alg, pub)
	if err != nil {
		return "", fmt.Errorf("jose: sign: header: %w", err)
	}
	body, err := marshal(claims)
	if err != nil {
		return "", fmt.Errorf("jose: sign: claims: %w", err)
	}
	enc := base64.RawURLEncoding
	out := make([]byte, 0, enc.EncodedLen(len(headJSON))+enc.EncodedLen(len(body))+2+enc.EncodedLen(signatureSize(pub)))
	out = append(enc.AppendEncode(out, headJSON), '.')
	out = enc.AppendEncode(out, body)
	sig, err := signature(s, alg, out)
	if err != nil {
		return "", fmt.Errorf("jose: sign with %s: %w", alg, err)
	}
	return string(enc.AppendEncode(append(out, '.'), sig)), nil
}

// encode returns the header as JSON with its members sorted by name.
func (h SignHeader) encode(alg Alg, pub crypto.PublicKey) ([]byte, error) {
	out := append(append(append(make([]byte, 0, 256), `{"alg":"`...), alg...), '"')
	if h.EmbedKey {
		jwk, err := encodePublic(pub)
		if err != nil {
			return nil, err
		}
		out = append(append(out, `,"jwk":`...), jwk...)
	}
	var err error
	if h.KID != "" {
		if out, err = jsontext.AppendQuote(append(out, `,"kid":`...), h.KID); err != nil {
			return nil, err
		}
	}
	out, err = jsontext.AppendQuote(append(out, `,"typ":`...), h.Type)
	return append(out, '}'), err
}

// marshal is json.Marshal without the escapes for HTML, because a token is not HTML.
func marshal(v any) ([]byte, error) {
	if raw, done := v.(json.RawMessage); done {
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// signatureSize returns the size in bytes of a signature with pub.
func signatureSize(pub crypto.PublicKey) int {
	if k, ok := pub.(*rsa.PublicKey); ok {
		return k.Size()
	}
	return 64
}

// signature returns a JWS signature of input by s.
func signature(s Signer, alg Alg, input []byte) ([]byte, error) {
	if alg == EdDSA {
		return s.Sign(rand.Reader, input, crypto.Hash(0))
	}
	sum := sha256.Sum256(input)
	sig, err := s.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil || alg == RS256 {
		return sig, err
	}
	return fixedECDSA(sig, 32)
}

// fixedECDSA converts the ASN.1 of crypto.Signer to r || s (RFC 7518, section 3.4).
func fixedECDSA(der []byte, size int) ([]byte, error) {
	var r, s []byte
	var pair cryptobyte.String
	in := cryptobyte.String(der)
	if !in.ReadASN1(&pair, asn1.SEQUENCE) || !in.Empty() || !pair.ReadASN1Integer(&r) || !pair.ReadASN1Integer(&s) || !pair.Empty() ||
		len(r) == 0 || len(r) > size || len(s) == 0 || len(s) > size {
		return nil, errors.New("the signer did not return an ASN.1 ECDSA signature")
	}
	out := make([]byte, 2*size)
	copy(out[size-len(r):], r)
	copy(out[2*size-len(s):], s)
	return out, nil
}
