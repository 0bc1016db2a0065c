package dpop_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"testing"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
)

func BenchmarkCheck(b *testing.B) {
	for name, key := range map[string]jose.Signer{"ES256": ecKey(b), "EdDSA": edKey(b)} {
		proof, err := dpop.NewProof(key, "POST", tokenURL, "an-access-token", "", epoch)
		if err != nil {
			b.Fatal(err)
		}
		r := dpop.Request{Method: "POST", URL: tokenURL, AccessToken: "an-access-token", Now: epoch}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dpop.Check([]string{proof}, r, dpop.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		known, err := jose.NewHeaders(1)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/again", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dpop.Check([]string{proof}, r, dpop.Options{Headers: known}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCredentialless is the signature check alone, for comparison.
func BenchmarkCredentialless(b *testing.B) {
	msg := make([]byte, 400)
	ec, ed := ecKey(b), edKey(b)
	b.Run("ES256", func(b *testing.B) {
		sig, err := ecdsa.SignASN1(rand.Reader, ec, msg[:32])
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			ecdsa.VerifyASN1(&ec.PublicKey, msg[:32], sig)
		}
	})
	b.Run("EdDSA", func(b *testing.B) {
		sig := ed25519.Sign(ed, msg)
		pub := ed.Public().(ed25519.PublicKey)
		for b.Loop() {
			ed25519.Verify(pub, msg, sig)
		}
	})
}

func BenchmarkNewProof(b *testing.B) {
	for name, key := range map[string]jose.Signer{"ES256": ecKey(b), "EdDSA": edKey(b)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := dpop.NewProof(key, "POST", tokenURL, "t", "", epoch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
