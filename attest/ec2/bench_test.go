package ec2_test

import (
	"testing"

	"ebb/attest"
	"ebb/attest/attesttest"
)

// A good document costs one signature of RSA-2048; one that answers no challenge of
// its key costs none, and neither does one of a signer that is not configured.
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
