package kubernetes_test

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// BenchmarkSigned measures Attest in mode jwks with cached keys.
func BenchmarkSigned(b *testing.B) {
	a := newServer(b, attesttest.NewClock())
	c := a.signed()
	b.Run("ES256", func(b *testing.B) { attestAll(b, open(b, c), a.token(nil)) })

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	public, err := jose.NewKey("k", &key.PublicKey)
	if err != nil {
		b.Fatal(err)
	}
	c.JWKSURL = ""
	if c.JWKS, err = jose.MarshalJWKS(public); err != nil {
		b.Fatal(err)
	}
	now := a.clock.Now()
	token := attesttest.Forge(b, key, object{"alg": "RS256", "kid": "k"}, object{"iss": c.Issuer, "aud": []string{aud}, "sub": "system:serviceaccount:agents:worker",
		"jti": "f3313bc2-11dc-4b21-b3a8-d41c25c51915", "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "kubernetes.io": bound(nil)})
	b.Run("RS256", func(b *testing.B) { attestAll(b, open(b, c), token) })
}

// BenchmarkReviewed measures ebb's own work in mode tokenreview, with prepared
// responses and no network.
func BenchmarkReviewed(b *testing.B) {
	a := newServer(b, attesttest.NewClock())
	attestAll(b, open(b, a.config()), a.token(nil))
}

func attestAll(b *testing.B, at attest.Attestor, token string) {
	b.Helper()
	e := attest.Evidence{Document: []byte(token)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := at.Attest(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}
