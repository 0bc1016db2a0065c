package spiffe_test

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/spiffe"
)

// The bounds with cached bundles: ES256 under 200 us, RS256 under 400 us.
func BenchmarkAttest(b *testing.B) {
	f := newFixture(b)
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	text := f.home.bundle()
	if err := text.AddJWTAuthority("rsa", r.Public()); err != nil {
		b.Fatal(err)
	}
	f.config.TrustDomains[home] = spiffe.TrustDomain{BundleFile: file(b, printed(b, text)), Allow: []string{"/sandbox/*"}}
	a := open(b, f.config)
	for _, bm := range []struct {
		name string
		attest.Evidence
	}{
		{"ES256", document(b, f.home.token(nil))},
		{"RS256", document(b, f.home.tokenBy(r, attesttest.Claims{"alg": "RS256", "kid": "rsa"}, nil))},
		{"X509", shows(b, f.home.below(ca("spiffe://"+home), leaf(boxID)))},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Attest(b.Context(), bm.Evidence); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
