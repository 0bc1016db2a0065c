package core_test

import (
	"path/filepath"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/keys"
)

// BenchmarkToken measures a mint and an introspection inside the broker, on embedded stores: no
// HTTP, no network. The proofs are made beforehand.
func BenchmarkToken(b *testing.B) { benchToken(b, brokertest.Config{}) }

// BenchmarkTokenMarked measures the same with the background work of the broker, without and with
// high-water marks.
func BenchmarkTokenMarked(b *testing.B) {
	for _, name := range []string{"without", "with"} {
		b.Run(name, func(b *testing.B) {
			c := brokertest.Config{Run: true, Keys: filepath.Join(b.TempDir(), "keys")}
			d, err := keys.Open(keys.Config{Dir: c.Keys})
			if err != nil {
				b.Fatal(err)
			}
			if name == "with" {
				c.Marks = map[string]broker.MarkStore{"keys": d}
			}
			benchToken(b, c)
		})
	}
}

func benchToken(b *testing.B, c brokertest.Config) {
	c.RealTime, c.Limits = true, unlimited
	e := brokertest.New(b, c)
	spec := brokertest.Spec()
	spec.Caps = broker.Caps{Leases: 1_000_000, MintsPerMinute: 1_000_000}
	s := e.Open(b, spec)
	requests := make(chan broker.TokenRequest, b.N)
	for range b.N {
		requests <- s.Request(b, "orders:eu/1:read")
	}
	b.ReportAllocs()
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := e.Broker.Token(b.Context(), <-requests); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

var unlimited = broker.Limits{
	DefaultCaps: broker.Caps{Leases: 1_000_000, MintsPerMinute: 1_000_000, OpenRequests: 3}, OwnerPerMin: 100_000_000,
}

func BenchmarkIntrospect(b *testing.B) {
	e := brokertest.New(b, brokertest.Config{RealTime: true})
	s := e.Open(b, brokertest.Spec())
	var tokens []string
	for range 256 {
		tok, err := s.Ask(b, "orders:eu/1:read")
		if err != nil {
			b.Fatal(err)
		}
		tokens = append(tokens, tok.Token.Reveal())
	}
	who := e.Principals[brokertest.Server]
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if got, err := e.Broker.Introspect(b.Context(), who, tokens[i%len(tokens)]); err != nil || !got.Active {
				b.Error("inactive", err)
				return
			}
		}
	})
}
