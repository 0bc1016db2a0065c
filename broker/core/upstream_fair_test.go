package core_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
)

// I12: a task that waits for a hanging provider holds at most half of the provider's places;
// further requests get "try again", and other tasks are served.
func TestUpstreamOneTaskStarvesNoOther(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{
		party:  brokertest.Party{Timeout: time.Minute},
		change: func(p *broker.Provider) { p.Parallel = 4 },
		config: brokertest.Config{RealTime: true},
	})
	greedy, modest := x.Open(t, upSpec()), x.Open(t, upSpec())
	release := make(chan struct{})
	var free sync.Once
	defer free.Do(func() { close(release) })
	x.up.Before(func(op, name string) {
		if op == brokertest.OpMint && x.greedily(name, greedy.Task.ID) {
			<-release
		}
	})
	var wg sync.WaitGroup
	for range 2 {
		r := greedy.Request(t, "up:a:read")
		wg.Go(func() { _, _ = x.Broker.Token(context.Background(), r) })
	}
	eventually(t, "both hang", func() bool { return x.up.Calls(brokertest.OpMint) == 2 })
	start := time.Now()
	_, err := greedy.Ask(t, "up:a:read")
	if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 || time.Since(start) > 20*time.Second {
		t.Errorf("told after %s to come again in %s", time.Since(start), e.RetryAfter)
	}
	for range 3 {
		minted(t, modest, "up:a:read")
	}
	minted(t, greedy, "orders:eu/1:read") // own tokens are not affected
	free.Do(func() { close(release) })
	wg.Wait()
	for _, s := range []*brokertest.Sandbox{greedy, modest} {
		if c := x.complete(t, s.Task.ID); c.PendingRevocations != 0 {
			t.Errorf("pending %d", c.PendingRevocations)
		}
	}
	if alive := x.up.Alive(); len(alive) != 0 {
		t.Errorf("alive %v", alive)
	}
}

// The tree counts: a task with delegates has no more places than before.
func TestUpstreamOneTreeStarvesNoOther(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{
		party:  brokertest.Party{Timeout: time.Minute},
		change: func(p *broker.Provider) { p.Parallel = 4 },
		config: brokertest.Config{RealTime: true},
	})
	spec := upSpec()
	spec.Delegation = delegating().Delegation
	root, modest := x.Open(t, spec), x.Open(t, upSpec())
	tree := []*brokertest.Sandbox{root, root.Delegate(t, ceiling("up:**:read")), root.Delegate(t, ceiling("up:**:read"))}
	release := make(chan struct{})
	var free sync.Once
	defer free.Do(func() { close(release) })
	x.up.Before(func(op, name string) {
		if op == brokertest.OpMint && !x.greedily(name, modest.Task.ID) {
			<-release
		}
	})
	var wg sync.WaitGroup
	for _, s := range tree[:2] {
		r := s.Request(t, "up:a:read")
		wg.Go(func() { _, _ = x.Broker.Token(context.Background(), r) })
	}
	eventually(t, "both hang", func() bool { return x.up.Calls(brokertest.OpMint) == 2 })
	for _, s := range tree {
		_, err := s.Ask(t, "up:a:read")
		kindOf(t, err, broker.TooMany)
	}
	for range 3 {
		minted(t, modest, "up:a:read")
	}
	free.Do(func() { close(release) })
	wg.Wait()
}

// The revocation queue serves trees in turns, too: the pending revocations of a task and its
// delegates do not delay another task's.
func TestRevocationQueueServesTreesByTurns(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true, change: func(p *broker.Provider) { p.Parallel = 1 }})
	spec := upSpec()
	spec.Delegation = delegating().Delegation
	root, modest := x.Open(t, spec), x.Open(t, upSpec())
	for range 4 {
		child := root.Delegate(t, ceiling("up:**:read"))
		for range 2 {
			minted(t, child, "up:a:read")
		}
	}
	last := minted(t, modest, "up:a:read").LeaseID
	x.closed(t, root.Task.ID)
	x.Clock.Add(time.Second)
	x.closed(t, modest.Task.ID)
	cs, err := x.db.Take(t.Context(), "up", x.Clock.Now(), x.Clock.Now().Add(time.Minute), 2)
	if err != nil || len(cs) != 2 || cs[1].ID != last {
		t.Errorf("the first two turns are of %+v (%v), want the second to be %s", cs, err, last)
	}
}

// greedily reports whether a credential at the provider belongs to a task.
func (x *third) greedily(name, taskID string) bool {
	id, _ := provider.LeaseOf(instance(x), name)
	ls, err := x.db.Leases(context.Background(), broker.LeaseFilter{IDs: []string{id}, Now: time.Now()})
	return err == nil && len(ls) == 1 && ls[0].TaskID == taskID
}

// A provider has at most the configured number of live credentials.
func TestUpstreamMaxLive(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{change: func(p *broker.Provider) { p.MaxLive = 3 }})
	s := x.Open(t, upSpec())
	var last broker.Token
	for range 3 {
		last = minted(t, s, "up:a:read")
	}
	_, err := s.Ask(t, "up:a:read")
	if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 {
		t.Error("no Retry-After")
	}
	if _, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Runner), last.LeaseID, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "room for one", func() bool { _, err := s.Ask(t, "up:a:read"); return err == nil })
	if n := len(x.up.Alive()); n != 3 {
		t.Errorf("%d alive", n)
	}
}

// The limit of the task holds, and a refused request is never minted.
func TestUpstreamTaskCap(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{})
	spec := upSpec()
	spec.Caps.Leases = 2
	s := x.Open(t, spec)
	for range 2 {
		minted(t, s, "up:a:read")
	}
	_, err := s.Ask(t, "up:a:read")
	kindOf(t, err, broker.TooMany)
	if x.up.Minted() != 2 {
		t.Errorf("%d minted", x.up.Minted())
	}
	x.settledBut(t, s.Task.ID, 2)
}

// settledBut waits until all but n leases of a task are in a final state.
func (x *third) settledBut(t *testing.T, taskID string, n int) {
	t.Helper()
	eventually(t, "the others are settled", func() bool {
		open := 0
		for _, l := range x.leases(t, taskID) {
			if l.State == broker.LeaseIntent || l.State == broker.LeaseLive || l.State == broker.LeaseRevoking {
				open++
			}
		}
		return open == n
	})
}

// A provider that is down is not called for every request.
func TestUpstreamMintBreaker(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{})
	s := x.Open(t, upSpec())
	x.up.On(brokertest.OpMint, brokertest.Error500)
	for range 12 {
		_, err := s.Ask(t, "up:a:read")
		if e := kindOf(t, err, broker.Unavailable); e.RetryAfter <= 0 {
			t.Error("no Retry-After")
		}
	}
	if n := x.up.Calls(brokertest.OpMint); n != 5 {
		t.Errorf("asked %d times", n)
	}
	x.up.On(brokertest.OpMint, "")
	x.Clock.Add(time.Minute)
	minted(t, s, "up:a:read")
	x.settledBut(t, s.Task.ID, 1)
}

// A mint that is refused here, before its provider is called, gives no information about a provider
// that was down: the next mint tries it.
func TestUpstreamMintBreakerOutlastsRefusals(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]func(*third, *brokertest.Sandbox) error{
		"by the live store": func(x *third, full *brokertest.Sandbox) error {
			_, err := full.Ask(t, "up:a:read")
			return err
		},
		"by the database": func(x *third, full *brokertest.Sandbox) error {
			x.store.on(audit.LeaseIntended, func() error { return errNoDatabase })
			defer x.store.on(audit.LeaseIntended, nil)
			_, err := full.Ask(t, "up:a:read")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{})
			s := x.Open(t, upSpec())
			capped := upSpec()
			capped.Caps.Leases = 1
			full := x.Open(t, capped)
			minted(t, full, "orders:eu/1:read")
			x.up.On(brokertest.OpMint, brokertest.Error500)
			for range 6 {
				_, err := s.Ask(t, "up:a:read")
				kindOf(t, err, broker.Unavailable)
			}
			x.Clock.Add(time.Minute)
			if err := refused(x, full); err == nil {
				t.Fatal("nothing was refused")
			}
			asked := x.up.Calls(brokertest.OpMint)
			for range 3 {
				_, err := s.Ask(t, "up:a:read")
				kindOf(t, err, broker.Unavailable)
			}
			if n := x.up.Calls(brokertest.OpMint) - asked; n != 1 {
				t.Errorf("%d calls found out that it is still down", n)
			}
			x.up.On(brokertest.OpMint, "")
			x.Clock.Add(2 * time.Minute)
			if err := refused(x, full); err == nil {
				t.Fatal("nothing was refused")
			}
			minted(t, s, "up:a:read")
		})
	}
}

// I6: mints to a provider that limits their rate are paused. Revocations are sent at once, however
// often callers reach the limit.
func TestRevocationQueueOutrunsAFloodOfMints(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{})
	s, flood := x.Open(t, upSpec()), x.Open(t, upSpec())
	minted(t, s, "up:a:read")
	x.up.On(brokertest.OpMint, brokertest.Busy)
	for range 3 {
		_, err := flood.Ask(t, "up:a:read")
		if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 {
			t.Error("no Retry-After")
		}
	}
	if n := x.up.Calls(brokertest.OpMint); n != 1 {
		t.Errorf("asked %d times", n)
	}
	x.closed(t, s.Task.ID)
	eventually(t, "dead at the provider", func() bool { return len(x.up.Alive()) == 0 })
	x.settled(t, s.Task.ID)
}

// A provider that limits the rate of revocations gets no other calls either.
func TestUpstreamMintWaitsForABusyRevocationQueue(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{})
	s, other := x.Open(t, upSpec()), x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.up.On(brokertest.OpRevoke, brokertest.Busy)
	x.up.On(brokertest.OpMint, "")
	x.closed(t, s.Task.ID)
	eventually(t, "told to wait", func() bool { return x.lease(t, id).Upstream.Attempts > 0 })
	_, err := other.Ask(t, "up:a:read")
	if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 || x.up.Calls(brokertest.OpMint) != 0 {
		t.Errorf("told to come again in %s, after %d calls", e.RetryAfter, x.up.Calls(brokertest.OpMint))
	}
	x.up.On(brokertest.OpRevoke, "")
	x.Clock.Add(10 * time.Second)
	minted(t, other, "up:a:read")
}

// A hanging provider delays no other one.
func TestRevocationQueueDeadProviderDelaysNoOther(t *testing.T) {
	t.Parallel()
	dead := brokertest.NewUpstream(t, nil)
	party := brokertest.Party{URL: dead.URL, Timeout: time.Minute}
	x := thirdParty(t, shape{config: brokertest.Config{RealTime: true, Providers: map[string]broker.Provider{
		"dead": {Driver: party.Driver(), Kind: "test", Resource: "https://dead.test/"},
	}}})
	spec := upSpec()
	spec.Ceiling = scopesOf("up:**:* dead:**:*")
	stuck, good := x.Open(t, spec), x.Open(t, spec)
	for range 20 {
		minted(t, stuck, "dead:a:read")
	}
	for range 5 {
		minted(t, good, "up:a:read")
	}
	dead.On(brokertest.OpRevoke, brokertest.Hang)
	x.closed(t, stuck.Task.ID)
	eventually(t, "it hangs", func() bool { return dead.Calls(brokertest.OpRevoke) > 0 })
	start := time.Now()
	if c := x.complete(t, good.Task.ID); c.PendingRevocations != 0 || time.Since(start) > 14*time.Second { // one call that hangs takes 15
		t.Errorf("pending %d after %s", c.PendingRevocations, time.Since(start))
	}
	if n := len(dead.Alive()); n != 20 {
		t.Errorf("%d alive at the dead provider", n)
	}
}
