package jose_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
)

func BenchmarkParse(b *testing.B) {
	token := forge(b, ed(b), goodHeader, payload(b, nil))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jose.Parse(token, jose.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	for name, s := range map[string]jose.Signer{"ES256": p256(b), "EdDSA": ed(b), "RS256": rsaKey()} {
		token, err := jose.Sign(s, jose.SignHeader{Type: "JWT", KID: "k1"}, good())
		if err != nil {
			b.Fatal(err)
		}
		keys, p := one(newKey(b, "k1", s.Public())), profile()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := jose.Verify(token, p, keys, epoch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSign(b *testing.B) {
	for name, s := range map[string]jose.Signer{"ES256": p256(b), "EdDSA": ed(b), "RS256": rsaKey()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			claims := good()
			for b.Loop() {
				if _, err := jose.Sign(s, jose.SignHeader{Type: "at+jwt", KID: "k1"}, claims); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCredentialless is the cryptography alone, to compare with.
func BenchmarkCredentialless(b *testing.B) {
	msg := make([]byte, 300)
	sum := sha256.Sum256(msg)
	ec, edKey := p256(b), ed(b)
	ecSig, err := ecdsa.SignASN1(rand.Reader, ec, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	edSig := ed25519.Sign(edKey, msg)
	edPub := edKey.Public().(ed25519.PublicKey)
	b.Run("ES256Verify", func(b *testing.B) {
		for b.Loop() {
			ecdsa.VerifyASN1(&ec.PublicKey, sum[:], ecSig)
		}
	})
	b.Run("EdDSAVerify", func(b *testing.B) {
		for b.Loop() {
			ed25519.Verify(edPub, msg, edSig)
		}
	})
	b.Run("ES256Sign", func(b *testing.B) {
		for b.Loop() {
			if _, err := ecdsa.SignASN1(rand.Reader, ec, sum[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("EdDSASign", func(b *testing.B) {
		for b.Loop() {
			ed25519.Sign(edKey, msg)
		}
	})
}
