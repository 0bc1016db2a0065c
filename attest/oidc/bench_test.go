package oidc_test

import (
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/oidc"
)

// BenchmarkAttest measures one Attest with cached keys.
func BenchmarkAttest(b *testing.B) {
	v := newVendor(b, readGolden(b, "github-actions"))
	b.Run("RS256", func(b *testing.B) { attestAll(b, v.open(nil), v.evidence(nil)) })

	clock := attesttest.NewClock()
	issuer := attesttest.NewIssuer(b, clock)
	c, err := v.config(nil)
	if err != nil {
		b.Fatal(err)
	}
	c.Issuer, c.JWKSURL, c.Fetch.Transport, c.Now, c.Algs = issuer.URL, issuer.JWKSURL, nil, clock.Now, []jose.Alg{jose.ES256}
	a, err := oidc.New(c)
	if err != nil {
		b.Fatal(err)
	}
	claims := changed(v.Claims, object{"iat": clock.Now().Unix(), "nbf": clock.Now().Unix(), "exp": clock.Now().Unix() + 300, "iss": issuer.URL})
	e := attest.Evidence{Document: []byte(issuer.Token(attesttest.Claims(claims)))}
	b.Run("ES256", func(b *testing.B) { attestAll(b, a, e) })
	b.Run("both cores", func(b *testing.B) {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := a.Attest(b.Context(), e); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func attestAll(b *testing.B, a attest.Attestor, e attest.Evidence) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Attest(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}
