package tpm_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest/attesttest"
)

// Both steps, for each kind of keys.
func BenchmarkTPM(b *testing.B) {
	f := newFixture(b)
	key := attesttest.NewKey(b)
	for name, box := range map[string]*box{"ECC": newBox(f.maker), "RSA": rsaBox(f.maker, tpm2.TPMAlgRSASSA)} {
		request, answer := evidence(must(json.Marshal(box.request())), key), f.know(box, key)
		b.Run("Challenge/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := f.Challenge(b.Context(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("Attest/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := f.Attest(b.Context(), answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
