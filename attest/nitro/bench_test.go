package nitro_test

import (
	"bytes"
	"testing"

	"github.com/ebb-broker/ebb/attest"
)

// A good document costs five signatures of P-384; one that answers no challenge of
// its key costs none.
func BenchmarkAttest(b *testing.B) {
	f := newFixture(b)
	good := f.evidence(b)
	foreign := f.evidence(b, set("nonce", bytes.Repeat([]byte("A"), 75)))
	for _, bm := range []struct {
		name string
		attest.Evidence
		accepted bool
	}{{"good", good, true}, {"without a challenge", foreign, false}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.a.Attest(b.Context(), bm.Evidence); (err == nil) != bm.accepted {
					b.Fatal(err)
				}
			}
		})
	}
}
