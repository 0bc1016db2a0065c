package verify_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"

	"ebb/attest/jose"
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// forge signs any header over any payload: what jose.Sign would never make.
func forge(t testing.TB, k jose.Signer, header, payload any) string {
	t.Helper()
	text := func(v any) []byte {
		if s, ok := v.(string); ok {
			return []byte(s)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	in := b64(text(header)) + "." + b64(text(payload))
	switch k := k.(type) {
	case *ecdsa.PrivateKey:
		sum := sha256.Sum256([]byte(in))
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		sig := make([]byte, 64)
		r.FillBytes(sig[:32])
		s.FillBytes(sig[32:])
		return in + "." + b64(sig)
	case ed25519.PrivateKey:
		return in + "." + b64(ed25519.Sign(k, []byte(in)))
	}
	sum := sha256.Sum256([]byte(in))
	sig, err := k.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return in + "." + b64(sig)
}

func publicJWK(t testing.TB, k jose.Signer) map[string]any {
	t.Helper()
	pub, err := jose.NewKey("", k.Public())
	if err != nil {
		t.Fatal(err)
	}
	text, err := jose.MarshalPublicJWK(pub)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"kty": m["kty"], "crv": m["crv"], "x": m["x"], "y": m["y"]}
}
