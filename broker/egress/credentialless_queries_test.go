package egress_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/scopes"
)

// asking counts the queries to the broker. With hang, a query returns only when its context ends,
// as with a database that hangs.
type asking struct {
	egress.Leases
	bare, now atomic.Int64
	hang      atomic.Bool
	uses      atomic.Int64
	hold      chan struct{} // Use waits until it is closed; nil = Use does not wait
}

// Use implements egress.Leases.
func (a *asking) Use(ctx context.Context, c broker.Caller, leaseID string) (broker.Usable, error) {
	a.uses.Add(1)
	if a.hold != nil {
		<-a.hold
	}
	return a.Leases.Use(ctx, c, leaseID)
}

// Credentialless implements egress.Leases.
func (a *asking) Credentialless(ctx context.Context, c broker.Caller) ([]broker.Usable, error) {
	a.bare.Add(1)
	if a.hang.Load() {
		a.now.Add(1)
		defer a.now.Add(-1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return a.Leases.Credentialless(ctx, c)
}

// listing returns a sandbox whose queries are counted, behind a proxy whose clock only at advances.
func listing(t *testing.T, change func(*egress.Config)) (b *bed, x *sandbox, asks *asking, at *atomic.Int64, host string) {
	t.Helper()
	b, _, host = public(t)
	asks, at = &asking{Leases: b.Broker}, new(atomic.Int64)
	begun := b.Config.Now()
	b.with(t, func(p *egress.Config) {
		p.Leases, p.Record, p.Now = asks, b.Broker, func() time.Time { return begun.Add(time.Duration(at.Load())) }
		change(p)
	})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:* web:**:*")
	return b, b.boxOf(t, b.Open(t, spec)), asks, at, host
}

// Requests without a placeholder cause few queries: one a second if a lease covers them, and a
// limited number per sandbox if none does. New leases are found, and requests without a lease do
// not block the requests of others.
//
//ebb:invariant I12 The rate at which a sandbox's requests without a placeholder cause lookups of leases is limited
func TestBareRequestsAskSeldom(t *testing.T) {
	t.Parallel()
	b, x, asks, at, host := listing(t, func(*egress.Config) {})
	c := x.client(t, false)
	if res, _ := send(t, c, "GET", host+"/docs/a", ""); res.StatusCode == http.StatusOK {
		t.Fatal("it left without a lease")
	}
	if _, err := x.s.Ask(t, "web:api.example.com/docs/**:read"); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"issued just now", "a while later"} {
		before := asks.bare.Load()
		for i := range 50 {
			if res, body := send(t, c, "GET", host+"/docs/a", ""); res.StatusCode != http.StatusOK {
				t.Fatalf("%d: %d %s", i, res.StatusCode, body)
			}
		}
		if n := asks.bare.Load() - before; n != 1 {
			t.Errorf("%s: the broker was asked %d times", when, n)
		}
		at.Add(int64(2 * time.Second))
	}
	p := x.placeholder(t, "stripe:charges:read")
	for misses := 0; ; misses++ {
		if res, body := send(t, c, "GET", host+"/v1/charges", ""); strings.Contains(body, "rate_limited") {
			break
		} else if misses == 5000 || res.StatusCode == http.StatusOK {
			t.Fatalf("%d misses: %d", misses, res.StatusCode)
		}
	}
	if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK {
		t.Errorf("a placeholder that is new: %d %s", res.StatusCode, body)
	}
	at.Add(int64(2 * time.Second))
	if res, body := send(t, c, "GET", host+"/docs/a", ""); res.StatusCode != http.StatusOK {
		t.Errorf("with a lease: %d %s", res.StatusCode, body)
	}
}

// If a lease has ended since the list was read, another lease that covers the request is used, and
// the request depends on that one.
//
//ebb:invariant I2 The end of a lease disconnects requests for which the egress proxy chose that lease as the replacement for an ended lease
func TestBareLeaseThatHasJustEnded(t *testing.T) {
	t.Parallel()
	b, x, _, _, host := listing(t, func(*egress.Config) {})
	ask := func() string {
		tok, err := x.s.Ask(t, "web:api.example.com/docs/**:read")
		if err != nil {
			t.Fatal(err)
		}
		return tok.LeaseID
	}
	c := x.client(t, false)
	one, two := ask(), ask()
	reads := func(when string, want int) {
		t.Helper()
		if res, body := send(t, c, "GET", host+"/docs/a", ""); res.StatusCode != want {
			t.Fatalf("%s: %d %s", when, res.StatusCode, body)
		}
	}
	end := func(id string) (cut int) {
		if _, err := b.Broker.RevokeLease(t.Context(), b.Principals[brokertest.Operator], id, "over"); err != nil {
			t.Fatal(err)
		}
		return b.proxy.End(id)
	}
	reads("by one of them", http.StatusOK)
	end(one) // both leases cover the request, so one of them ends at a time
	reads("by the second", http.StatusOK)
	three := ask()
	end(two)
	res, err := c.Get(host + "/docs/events")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal("by the third:", res, err)
	}
	defer func() { _ = res.Body.Close() }()
	if n := b.proxy.End(two); n != 0 {
		t.Errorf("%d requests live by the second still", n)
	}
	if n := end(three); n != 1 {
		t.Errorf("%d requests were cut", n)
	}
	cut(t, "the third ends", res.Body)
	until(t, "nothing lives by it", func() bool { return b.proxy.End(three) == 0 })
	reads("by none", http.StatusUnauthorized)
}

// E100: a query that gets no answer occupies one slot of a sandbox, as do the requests that wait
// for it, and a disconnection ends them all.
//
//ebb:invariant I12 Only a request that occupies one of the sandbox's request slots causes a lookup of leases, and a disconnection ends that lookup
func TestCutWhileLeasesAreListed(t *testing.T) {
	t.Parallel()
	b, x, asks, _, host := listing(t, func(*egress.Config) {})
	asks.hang.Store(true)
	var left atomic.Int64
	for range 3 {
		c := x.client(t, false)
		go func() {
			defer left.Add(1)
			if res, err := c.Get(host + "/docs/a"); err == nil {
				t.Errorf("it gets %s", res.Status)
				_ = res.Body.Close()
			}
		}()
	}
	until(t, "the question is asked", func() bool { return asks.now.Load() == 1 })
	until(t, "all are disconnected", func() bool { b.proxy.Pause(x.s.Task.ID); return left.Load() == 3 }) // they arrive one by one
	until(t, "no query is running", func() bool { return asks.now.Load() == 0 })
}

// A request without a slot causes no query.
//
//ebb:invariant I12 Only a request that occupies one of the sandbox's request slots causes a lookup of leases, and a disconnection ends that lookup
func TestBareWaitsForItsPlace(t *testing.T) {
	t.Parallel()
	b, x, asks, _, host := listing(t, func(p *egress.Config) { p.Requests = 1 })
	asks.hold = make(chan struct{})
	release := sync.OnceFunc(func() { close(asks.hold) })
	defer release()
	p := x.placeholder(t, "stripe:charges:read")
	var all sync.WaitGroup
	one, other := x.client(t, false), x.client(t, false)
	all.Go(func() { send(t, one, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p) })
	until(t, "it is running", func() bool { return asks.uses.Load() == 1 })
	all.Go(func() { send(t, other, "GET", host+"/docs/a", "") })
	time.Sleep(100 * time.Millisecond) // in which nothing must arrive: a slow machine can only miss an error
	if n := asks.bare.Load(); n != 0 {
		t.Errorf("%d questions for a request that waits", n)
	}
	release()
	until(t, "it is asked for", func() bool { return asks.bare.Load() > 0 })
	all.Wait()
}
