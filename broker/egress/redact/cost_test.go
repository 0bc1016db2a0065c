package redact_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/redact"
)

// The memory of a redactor does not exceed its Cost, which is known before it is built.
//
//ebb:invariant I12 The memory of a redactor is counted before it is built, and at most two redactors are built at a time
func TestCost(t *testing.T) {
	t.Parallel()
	secrets := []string{strings.Repeat("\u2028", 300), strings.Repeat("é", 2000), strings.Repeat(`"&<>/+%\`, 1000)}
	for b := range 256 {
		secrets = append(secrets, strings.Repeat(string([]byte{byte(b)}), 40))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 8; n <= 8<<10; n *= 2 {
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		text := make([]byte, n)
		for i := range text {
			text[i] = ' ' + byte(rng.IntN(95))
		}
		secrets = append(secrets, string(raw), string(text))
	}
	for i, s := range secrets {
		for _, all := range [][]string{{s}, {s, secrets[i/2] + "another"}} {
			r, err := redact.New(all...)
			if err != nil {
				t.Fatalf("%.20q: %v", s, err)
			}
			if r.Bytes() > redact.Cost(all...) {
				t.Errorf("%.20q and %d more: it takes %d, and should %d at most", s, len(all)-1, r.Bytes(), redact.Cost(all...))
			}
		}
	}
}
