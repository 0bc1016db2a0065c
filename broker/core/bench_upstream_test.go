package core_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// timed is a third party in this process whose calls take fixed times: the rest of a measured time
// is ebb's own.
type timed struct {
	revoke time.Duration // 0 = at once; negative = it hangs
}

func (timed) Traits() provider.Traits {
	return provider.Traits{ThirdParty: true, Revocability: provider.Revocability{Class: provider.ClassInstant}}
}

func (timed) Check(scopes.Set) error { return nil }

func (timed) Mint(_ context.Context, g provider.Grant) (provider.Credential, error) {
	s := secret.New("tok-" + g.LeaseID)
	return provider.Credential{Token: s, Handle: s, Type: "Bearer", ExpiresAt: g.ExpiresAt, DiesAt: g.ExpiresAt}, nil
}

func (d timed) Revoke(ctx context.Context, t provider.Target) error {
	if t.Handle.Empty() {
		return errors.New("no handle")
	}
	var done <-chan time.Time
	if d.revoke >= 0 {
		done = time.After(d.revoke)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// benched returns a broker with third parties on embedded stores, with a running revocation queue.
func benched(b *testing.B, parties map[string]timed) *brokertest.Env {
	b.Helper()
	providers := map[string]broker.Provider{}
	for name, d := range parties {
		providers[name] = broker.Provider{Driver: d, Kind: "test", Resource: "https://" + name + ".test/"}
	}
	return brokertest.New(b, brokertest.Config{RealTime: true, Run: true, Limits: unlimited, Providers: providers})
}

func benchTask(b *testing.B, e *brokertest.Env) *brokertest.Sandbox {
	b.Helper()
	spec := brokertest.Spec()
	ceiling := "up:**:* orders:**:*"
	if _, has := e.Config.Providers["dead"]; has {
		ceiling += " dead:**:*"
	}
	spec.Ceiling = scopesOf(ceiling)
	spec.Caps = broker.Caps{Leases: 1_000_000, MintsPerMinute: 1_000_000}
	return e.Open(b, spec)
}

// fill mints n credentials, a few at a time. The proofs are made beforehand.
func fill(b *testing.B, s *brokertest.Sandbox, scope string, n int) {
	b.Helper()
	requests := make(chan broker.TokenRequest, n)
	for range n {
		requests <- s.Request(b, scope)
	}
	close(requests)
	var wg sync.WaitGroup
	for range 6 { // a task has half the places of a provider
		wg.Go(func() {
			for r := range requests {
				if _, err := s.Env.Broker.Token(b.Context(), r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// at returns the p-th percentile of times, in microseconds.
func at(p int, of []time.Duration) float64 {
	slices.Sort(of)
	return float64(of[min(len(of)*p/100, len(of)-1)].Nanoseconds()) / 1e3
}

// BenchmarkMintUpstream mints, in turns, an own token and a credential at a third party that
// answers at once. The target: p50-us, which is ebb's own time, stays below 2000.
func BenchmarkMintUpstream(b *testing.B) {
	e := benched(b, map[string]timed{"up": {}})
	s := benchTask(b, e)
	var own, third []time.Duration
	mint := func(scope string) time.Duration {
		b.StopTimer()
		r := s.Request(b, scope)
		b.StartTimer()
		start := time.Now()
		if _, err := e.Broker.Token(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for b.Loop() {
		own = append(own, mint("orders:eu/1:read"))
		third = append(third, mint("up:a:read"))
	}
	b.ReportMetric(at(50, own), "own-p50-us")
	b.ReportMetric(at(99, own), "own-p99-us")
	b.ReportMetric(at(50, third), "p50-us")
	b.ReportMetric(at(99, third), "p99-us")
	b.ReportMetric(at(50, third)-at(50, own), "added-p50-us")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCompleteUpstream completes a task with b.N credentials at a third party that takes 50 ms
// for a call, 16 at a time. The target, with -benchtime 1000x: the ratio of the time until all are
// revoked to the time of the calls alone stays below 1.2.
func BenchmarkCompleteUpstream(b *testing.B) {
	const takes, parallel = 50 * time.Millisecond, 16
	e := benched(b, map[string]timed{"up": {revoke: takes}})
	s := benchTask(b, e)
	fill(b, s, "up:a:read", b.N)
	b.ResetTimer()
	c, err := e.Broker.CompleteTask(b.Context(), e.Principals[brokertest.Runner], s.Task.ID, time.Minute)
	if err != nil || c.PendingRevocations != 0 || c.Revoked != b.N {
		b.Fatalf("pending %d, revoked %d (%v)", c.PendingRevocations, c.Revoked, err)
	}
	b.StopTimer()
	ideal := time.Duration(b.N) * takes / parallel
	b.ReportMetric(b.Elapsed().Seconds(), "s/task")
	b.ReportMetric(float64(b.Elapsed())/float64(ideal), "ratio")
}

// BenchmarkDeadProvider completes tasks with 32 credentials at a third party that takes 20 ms for a
// call: alone, and in turns with another third party that hangs and has 200 pending revocations.
// The target: the ratio stays below 1.1.
func BenchmarkDeadProvider(b *testing.B) {
	alone := benched(b, map[string]timed{"up": {revoke: 20 * time.Millisecond}})
	beside := benched(b, map[string]timed{"up": {revoke: 20 * time.Millisecond}, "dead": {revoke: -1}})
	stuck := benchTask(b, beside)
	fill(b, stuck, "dead:a:read", 200)
	if c, err := beside.Broker.CompleteTask(b.Context(), beside.Principals[brokertest.Runner], stuck.Task.ID, 0); err != nil || c.PendingRevocations != 200 {
		b.Fatalf("pending %d (%v)", c.PendingRevocations, err)
	}
	end := func(e *brokertest.Env) time.Duration {
		b.StopTimer()
		s := benchTask(b, e)
		fill(b, s, "up:a:read", 32)
		b.StartTimer()
		start := time.Now()
		if c, err := e.Broker.CompleteTask(b.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait); err != nil || c.PendingRevocations != 0 {
			b.Fatalf("pending %d (%v)", c.PendingRevocations, err)
		}
		return time.Since(start)
	}
	var without, with []time.Duration
	for b.Loop() {
		without = append(without, end(alone))
		with = append(with, end(beside))
	}
	b.ReportMetric(at(50, without), "alone-p50-us")
	b.ReportMetric(at(50, with), "p50-us")
	b.ReportMetric(at(50, with)/at(50, without), "ratio")
	b.ReportMetric(0, "ns/op")
}
