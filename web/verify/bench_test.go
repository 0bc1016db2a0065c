package verify_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/web/verify"
)

// BenchmarkVerify verifies one request: cached = one signature (the proof's),
// cold = two. BenchmarkCredentialless has the signatures only.
func BenchmarkVerify(b *testing.B) {
	for _, tc := range []struct {
		name string
		size int
	}{{"cached", 0}, {"cold", -1}} {
		b.Run(tc.name, func(b *testing.B) {
			w := newWorld(b, time.Now)
			cfg := w.config()
			cfg.CacheSize = tc.size
			cfg.Replay = verify.NewReplay(1<<22, nil)
			v := w.running(cfg)
			raw := w.token(nil)
			ring := make([]*http.Request, 4096)
			for i := range ring {
				ring[i] = w.request(raw)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				if i%len(ring) == 0 && i > 0 {
					b.StopTimer()
					for i := range ring {
						ring[i] = w.request(raw)
					}
					b.StartTimer()
				}
				if _, err := v.Verify(ring[i%len(ring)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCredentialless(b *testing.B) {
	k := p256(b).(*ecdsa.PrivateKey)
	sum := sha256.Sum256([]byte("x"))
	sig, err := ecdsa.SignASN1(rand.Reader, k, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	for name, n := range map[string]int{"one": 1, "two": 2} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for range n {
					if !ecdsa.VerifyASN1(&k.PublicKey, sum[:], sig) {
						b.Fatal("bad")
					}
				}
			}
		})
	}
}
