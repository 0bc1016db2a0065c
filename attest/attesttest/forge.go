package attesttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Forge signs any header over any payload, including those that jose.Sign refuses. It
// signs with the algorithm of the key (P-256, Ed25519 or RSA), even when the header
// names another. Strings are encoded as they are, other values as JSON.
func Forge(t testing.TB, k jose.Signer, header, payload any) string {
	t.Helper()
	text := func(v any) string {
		if s, ok := v.(string); ok {
			return base64.RawURLEncoding.EncodeToString([]byte(s))
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	in := text(header) + "." + text(payload)
	var sig []byte
	sum := sha256.Sum256([]byte(in))
	switch k := k.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		sig = make([]byte, 64)
		r.FillBytes(sig[:32])
		s.FillBytes(sig[32:])
	case ed25519.PrivateKey:
		sig = ed25519.Sign(k, []byte(in))
	default:
		var err error
		if sig, err = k.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
			t.Fatal(err)
		}
	}
	return in + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// PublicJWK returns the public key of a signer as a decoded JWK with exactly the members
// that RFC 7638 requires.
func PublicJWK(t testing.TB, k jose.Signer) map[string]any {
	t.Helper()
	pub, err := jose.NewKey("", k.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := jose.MarshalPublicJWK(pub)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, name := range []string{"kty", "crv", "x", "y", "n", "e"} {
		if v, has := all[name]; has {
			out[name] = v
		}
	}
	return out
}
