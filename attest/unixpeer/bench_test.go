//go:build linux

package unixpeer_test

import (
	"testing"

	"github.com/ebb-broker/ebb/attest/unixpeer"
)

func BenchmarkAttest(b *testing.B) {
	for name, c := range map[string]unixpeer.Config{"process": {}, "exe digest": {ExeDigest: true}} {
		b.Run(name, func(b *testing.B) {
			a := newAttestor(b, c)
			e, _ := newListener(b).evidence()
			for b.Loop() {
				if _, err := a.Attest(b.Context(), e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
