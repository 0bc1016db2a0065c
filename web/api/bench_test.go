package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

func benchRig(b *testing.B) (*rig, *box) {
	b.Helper()
	many := broker.Caps{Leases: 1_000_000, MintsPerMinute: 1_000_000}
	r := newRig(b, options{loose: true, broker: brokertest.Config{RealTime: true, Limits: broker.Limits{OwnerPerMin: 1_000_000}}})
	s := spec()
	s.Caps = many
	return r, r.sandboxFor(b, s)
}

// BenchmarkToken compares a mint over HTTP with the broker's part of it. Both
// make their proof in the loop; the difference is the cost of this package.
func BenchmarkToken(b *testing.B) {
	b.Run("http", func(b *testing.B) {
		r, x := benchRig(b)
		body := x.exchange(canRead).Encode()
		b.SetParallelism(8)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				req := r.request(http.MethodPost, tokenURL, strings.NewReader(body))
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				req.Header.Set("DPoP", r.proof(b, x.key, http.MethodPost, tokenURL, ""))
				w := httptest.NewRecorder()
				if r.mux.ServeHTTP(w, req); w.Code != 200 {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	})
	b.Run("broker", func(b *testing.B) {
		r, x := benchRig(b)
		s := &brokertest.Sandbox{Env: r.env, Key: x.key, TaskToken: x.token}
		b.SetParallelism(8)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := s.Ask(b, canRead); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkMint measures this process's work for one mint over HTTP, on
// embedded stores and without a network. The proofs are made before: allocs/op
// is reliable also on a busy machine.
func BenchmarkMint(b *testing.B) {
	r, x := benchRig(b)
	body := x.exchange(canRead).Encode()
	proofs := make(chan string, b.N)
	for range b.N {
		proofs <- r.proof(b, x.key, http.MethodPost, tokenURL, "")
	}
	b.SetParallelism(8)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req := r.request(http.MethodPost, tokenURL, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("DPoP", <-proofs)
			w := httptest.NewRecorder()
			if r.mux.ServeHTTP(w, req); w.Code != 200 {
				b.Errorf("%d %s", w.Code, w.Body)
				return
			}
		}
	})
}

// BenchmarkIntrospect is an introspection with an access token, whose signature
// is cached; the proof is made in the loop.
func BenchmarkIntrospect(b *testing.B) {
	r, x := benchRig(b)
	token := x.access(b, canRead)
	bearer := r.post(b, tokenURL, r.client(b, brokertest.Server, url.Values{"grant_type": {grantCredentials}})).text("access_token")
	body := url.Values{"token": {token}}.Encode()
	b.ReportAllocs()
	for b.Loop() {
		req := r.request(http.MethodPost, "/oauth2/introspect", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Authorization", "Bearer "+bearer)
		w := httptest.NewRecorder()
		if r.mux.ServeHTTP(w, req); w.Code != 200 || !strings.Contains(w.Body.String(), `"active":true`) {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}
