package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/redisstore"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/broker/revocation"
)

var errNoDatabase = errors.New("dial tcp 10.0.0.9:5432: connection refused")

// cut makes every write and every read of the database fail.
func (x *third) cut(err error) {
	for _, op := range []string{"Append", "Leases", "Tasks", "Requests", "Take"} {
		f := func() error { return err }
		if err == nil {
			f = nil
		}
		x.store.on(op, f)
	}
}

// refused reports whether the LiveStore refuses a lease.
func (x *third) refused(t *testing.T, taskID, leaseID string) bool {
	t.Helper()
	alive, err := x.Config.LiveStore.Status(t.Context(), taskID, leaseID, x.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	return !alive
}

// I3, I6: the database is down during a revocation. The caller is told that it is not recorded yet,
// the credential is refused here at once, and its provider is asked as soon as the database is
// back, without a retry by the caller.
//
//ebb:invariant I3
func TestFaultDatabaseDownAtRevoke(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, x *third, s *brokertest.Sandbox, id string) error{
		"lease": func(t *testing.T, x *third, _ *brokertest.Sandbox, id string) error {
			x.store.on("Append", func() error { return errNoDatabase })
			_, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Runner), id, "leaked")
			return err
		},
		"task": func(t *testing.T, x *third, s *brokertest.Sandbox, _ string) error {
			x.cut(errNoDatabase)
			_, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true, Probes: true}})
			s := x.Open(t, upSpec())
			id := minted(t, s, "up:a:read").LeaseID
			if e := kindOf(t, end(t, x, s, id), broker.Unavailable); e.RetryAfter <= 0 || e.Public == "" {
				t.Errorf("told %q, again in %s", e.Public, e.RetryAfter)
			}
			if !x.refused(t, s.Task.ID, id) {
				t.Error("accepted here while the database is down")
			}
			x.cut(nil)
			eventually(t, "dead at the provider", func() bool { return len(x.up.Alive()) == 0 })
			x.settled(t, s.Task.ID)
			if l := x.lease(t, id); l.State != broker.LeaseRevoked || l.Upstream.Proof != broker.ProofProbed {
				t.Errorf("lease %+v %+v", l, l.Upstream)
			}
		})
	}
}

// The database goes down between the provider's answer and its record, or before the revocation
// queue can read: the step is repeated once it is back, and counted once.
func TestFaultDatabaseDownInTheRevocationQueue(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]string{"settling": audit.LeaseDead, "looking": "Take"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true}})
			s := x.Open(t, upSpec())
			id := minted(t, s, "up:a:read").LeaseID
			x.store.on(op, func() error { return errNoDatabase })
			if c := x.closed(t, s.Task.ID); c.PendingRevocations != 1 {
				t.Errorf("pending %d", c.PendingRevocations)
			}
			eventually(t, "it was tried", func() bool { return x.store.count(op) > 0 })
			if l := x.lease(t, id); l.State != broker.LeaseRevoking || !l.Upstream.DeadAt.IsZero() {
				t.Errorf("nothing is on the record, and yet: %+v %+v", l, l.Upstream)
			}
			x.store.on(op, nil)
			x.turn(t, time.Minute, "settled", func() bool { return x.lease(t, id).State == broker.LeaseRevoked })
			if n := len(entries(t, x.target, broker.EntryFilter{LeaseID: id, Kind: audit.LeaseDead})); n != 1 || len(x.up.Alive()) != 0 {
				t.Errorf("%d records of one end, alive %v", n, x.up.Alive())
			}
		})
	}
}

// The Redis master is killed (-9) between the intent and the provider's call. The caller gets an
// error, and the credential that the provider made is revoked while Redis is still down: a
// revocation needs no LiveStore.
//
//ebb:invariant I3
func TestFaultRedisKilledBetweenIntentAndMint(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]brokertest.Fault{"answers": "", "cut": brokertest.DoneCut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.New(t)
			liveStore, err := redisstore.New(t.Context(), redisstore.Config{Addrs: []string{r.Addr}, Timeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = liveStore.Close() })
			up := brokertest.NewUpstream(t, nil)
			env := brokertest.New(t, brokertest.Config{
				LiveStore: liveStore, RealTime: true, Run: true,
				Providers: map[string]broker.Provider{"up": {Driver: brokertest.Party{URL: up.URL, ByHandle: true, Probes: true}.Driver(), Kind: "test", Resource: "https://up.test/"}},
			})
			s := env.Open(t, upSpec())
			if _, err := s.Ask(t, "up:a:read"); err != nil {
				t.Fatal(err)
			}
			first := up.Alive()
			up.OnCall(brokertest.OpMint, func(int) brokertest.Fault { return fault })
			var once sync.Once
			up.Before(func(op, _ string) {
				if op == brokertest.OpMint {
					once.Do(r.Kill)
				}
			})
			_, err = s.Ask(t, "up:a:read")
			if e := kindOf(t, err, broker.Unavailable); e.RetryAfter <= 0 {
				t.Error("no Retry-After")
			}
			if up.Minted() != 2 {
				t.Fatalf("%d minted", up.Minted())
			}
			eventually(t, "only the first is alive at the provider, and Redis is away", func() bool {
				alive := up.Alive()
				return len(alive) == 1 && alive[0] == first[0]
			})
			up.On(brokertest.OpMint, "")
			r.Start()
			eventually(t, "it mints again", func() bool { _, err := s.Ask(t, "up:a:read"); return err == nil })
			c, err := env.Broker.CompleteTask(t.Context(), env.Principals[brokertest.Runner], s.Task.ID, revocation.MaxWait)
			if err != nil || c.PendingRevocations != 0 || len(up.Alive()) != 0 {
				t.Errorf("completed: pending %d, alive %v (%v)", c.PendingRevocations, up.Alive(), err)
			}
		})
	}
}

// I10: many replicas compete for one lease. One works on it, and one revocation is recorded.
func TestFaultReplicasRaceForOneLease(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Probes: true}, config: brokertest.Config{RealTime: true}})
	for range 5 {
		x.janitor(t, x.replica(t))
	}
	for range 3 {
		s := x.Open(t, upSpec())
		id := minted(t, s, "up:a:read").LeaseID
		if c := x.complete(t, s.Task.ID); c.PendingRevocations != 0 {
			t.Fatalf("pending %d", c.PendingRevocations)
		}
		if n := x.up.Revocations(provider.Name(instance(x), id)); n != 1 {
			t.Errorf("ended %d times", n)
		}
		if n := len(entries(t, x.target, broker.EntryFilter{LeaseID: id, Kind: audit.LeaseDead})); n != 1 {
			t.Errorf("%d records of one end", n)
		}
	}
	if n := x.up.Calls(brokertest.OpRevoke); n != 3 {
		t.Errorf("%d calls to revoke 3", n)
	}
}

// Redis is flushed, or set to evict, while tokens live. No introspection answers "inactive" for a
// live token, nothing is minted, and both work again once the database has refilled it.
//
//ebb:invariant I6 After Redis was flushed, no call reports the lost data as inactive, unknown or unused
//ebb:invariant I6 Answers from a Redis that may evict or has evicted keys are not trusted until the live store is refilled
func TestFaultRedisForgets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ harm, cure string }{
		"flushed":      {"FLUSHALL", "PING"},
		"may evict":    {"CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction"},
		"evicts a lot": {"CONFIG SET maxmemory-policy allkeys-lru maxmemory 1", "CONFIG SET maxmemory-policy noeviction maxmemory 100mb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.Run(t, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
			clock := &brokertest.Clock{}
			liveStore, err := redisstore.New(t.Context(), redisstore.Config{Addrs: []string{r.Addr}, Timeout: 20 * time.Second, Now: func() time.Time { return clock.Now() }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = liveStore.Close() })
			env := brokertest.New(t, brokertest.Config{LiveStore: liveStore, Clock: clock})
			s := env.Open(t, brokertest.Spec())
			tok, err := s.Ask(t, "orders:eu/1:read")
			if err != nil {
				t.Fatal(err)
			}
			r.Do(c.harm)
			if c.harm != "FLUSHALL" { // a check of its configuration finds it
				clock.Add(5 * time.Second)
				if env.Broker.Ready(t.Context())[0].Err == nil {
					t.Error("it is said to be up")
				}
			}
			for range 3 {
				_, err := env.Broker.Introspect(t.Context(), env.Principals[brokertest.Server], tok.Token.Reveal())
				kindOf(t, err, broker.Unavailable)
				_, err = s.Ask(t, "orders:eu/1:read")
				kindOf(t, err, broker.Unavailable)
			}
			r.Do(c.cure)
			clock.Add(5 * time.Second)
			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan struct{})
			go func() { defer close(ran); _ = env.Broker.Run(ctx) }()
			defer func() { stop(); <-ran }()
			eventually(t, "refilled", func() bool { return env.Broker.Ready(t.Context())[0].Err == nil })
			if !env.Active(t, tok.Token.Reveal()) {
				t.Error("the token did not come back with the refill")
			}
			clock.Add(time.Second) // a proof of the second in which the loss was noticed is refused
			if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
				t.Error(err)
			}
		})
	}
}
