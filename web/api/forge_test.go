package api_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"

	"ebb/attest"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/brokertest"
)

// forgeRaw signs bytes that no library would let out: ES256 over any header and
// payload text.
func forgeRaw(t testing.TB, key jose.Signer, head, body string) string {
	t.Helper()
	in := base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body))
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("a P-256 key is needed, not %T", key)
	}
	sum := sha256.Sum256([]byte(in))
	r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return in + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// publicJWK is the public key of a signer as a decoded JWK.
func publicJWK(t testing.TB, key jose.Signer) map[string]any {
	t.Helper()
	k, err := jose.NewKey("", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	b, err := jose.MarshalPublicJWK(k)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func newEd25519(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func forgeEd25519(t testing.TB, key ed25519.PrivateKey, head, body map[string]any) string {
	t.Helper()
	h, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	in := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(b)
	return in + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(in)))
}

// withTicket is a task whose sandbox enrols with a ticket.
func withTicket() broker.TaskSpec {
	s := brokertest.Spec()
	s.Ticket = true
	return s
}

func evidenceOf(document string) attest.Evidence { return attest.Evidence{Document: []byte(document)} }
