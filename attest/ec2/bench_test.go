package ec2_test

import (
	"testing"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
)

// BenchmarkAttest measures a valid document, which costs one RSA-2048 verification, and
// two invalid ones, which cost none: one with a wrong nonce and one of an unknown
// signer.
func BenchmarkAttest(b *testing.B) {
	f := newFixture(b)
	good := f.evidence(b)
	thief := good
	thief.Key = attesttest.NewKey(b)
	stranger := f.evidence(b, foreign(newMaker(b, 2, f.clock.Now())))
	for _, bm := range []struct {
		name string
		attest.Evidence
		accepted bool
	}{{"good", good, true}, {"for another key", thief, false}, {"of another signer", stranger, false}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Attest(b.Context(), bm.Evidence); (err == nil) != bm.accepted {
					b.Fatal(err)
				}
			}
		})
	}
}
