package github_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/github"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
	"github.com/ebb-broker/ebb/broker/revocation"
	"github.com/ebb-broker/ebb/scopes"
)

// fixture is a whole broker whose provider "gh" is a rig.
type fixture struct {
	*rig
	env *brokertest.Env
}

func newFixture(t *testing.T, change ...func(*github.Config)) *fixture {
	t.Helper()
	opaque := func(c *github.Config) { c.TokenFormat = "opaque" }
	h := &fixture{rig: newRig(t, append([]func(*github.Config){opaque}, change...)...)}
	h.env = brokertest.New(t, brokertest.Config{
		Start: h.clock.Now(), Run: true,
		Providers: map[string]broker.Provider{"gh": {Driver: h.Driver, Kind: "github", Resource: "https://api.github.test/"}},
	})
	return h
}

// pass lets time go by for everybody.
func (h *fixture) pass(d time.Duration) {
	h.clock.Advance(d)
	h.env.Clock.Add(d)
}

func (h *fixture) open(t *testing.T) *brokertest.Sandbox {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("gh:acme/**:read")
	return h.env.Open(t, spec)
}

func (h *fixture) lease(t *testing.T, taskID string) broker.Lease {
	t.Helper()
	ls, err := h.env.Store.Leases(t.Context(), broker.LeaseFilter{TaskID: taskID, Now: h.clock.Now(), Page: broker.Page{Limit: 10}})
	if err != nil || len(ls) != 1 {
		t.Fatalf("%d leases, %v", len(ls), err)
	}
	return ls[0]
}

// until turns the clock step by step until it holds, not much faster than the revocation queue looks.
func (h *fixture) until(t *testing.T, step time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); h.pass(step) {
		if time.Now().After(end) {
			t.Fatalf("not within two minutes: %s", what)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (h *fixture) complete(t *testing.T, taskID string) broker.Completion {
	t.Helper()
	done, err := h.env.Broker.CompleteTask(t.Context(), h.env.Principals[brokertest.Runner], taskID, revocation.MaxWait)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestWalk covers a lease from its request to the probe, with the broker's own revocation
// queue. An opaque token is dead when the task is complete. A lease whose token remains valid
// for longer is shown as such.
func TestWalk(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := h.open(t)
	tok, err := s.Ask(t, "gh:acme/docs/contents:read")
	if err != nil {
		t.Fatal(err)
	}
	if alive, err := h.alive(t.Context(), tok.Token.Reveal()); !alive || err != nil || tok.Class != provider.ClassInstant {
		t.Errorf("alive %v, %v, class %s", alive, err, tok.Class)
	}
	done := h.complete(t, s.Task.ID)
	if l := done.Credentials[0]; done.PendingRevocations != 0 || h.hub.Living() != 0 || l.State != broker.LeaseRevoked || l.Upstream.Proof != broker.ProofProbed {
		t.Errorf("pending %d, %d live, %+v", done.PendingRevocations, h.hub.Living(), l.Upstream)
	}

	h = newFixture(t, func(c *github.Config) { c.TokenFormat = "" })
	h.hub.Format(githubtest.Stateless, 40*time.Second)
	s = h.open(t)
	if tok, err = s.Ask(t, readWeb); err != nil || tok.Class != provider.ClassEventual {
		t.Fatalf("class %q, %v", tok.Class, err)
	}
	// It waits in vain, so not for long.
	done, err = h.env.Broker.CompleteTask(t.Context(), h.env.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait)
	if err != nil || done.PendingRevocations != 1 || h.hub.Living() != 1 {
		t.Errorf("pending %d, %d live, %v", done.PendingRevocations, h.hub.Living(), err)
	}
	h.until(t, 5*time.Second, "the late end is proven", func() bool { return h.lease(t, s.Task.ID).State == broker.LeaseRevoked })
	if l := h.lease(t, s.Task.ID); l.Upstream.Proof != broker.ProofProbed || h.hub.Living() != 0 || l.Upstream.DeadAt.Sub(l.Upstream.AcceptedAt) < 40*time.Second {
		t.Errorf("%+v", l.Upstream)
	}
}

// TestWalkOutlivesItsLease: GitHub's lifetime of an hour is longer than a lease, so ebb
// revokes the token when the lease ends.
func TestWalkOutlivesItsLease(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := h.open(t)
	if _, err := s.Ask(t, readWeb); err != nil {
		t.Fatal(err)
	}
	h.until(t, time.Minute, "expired", func() bool { return h.lease(t, s.Task.ID).State == broker.LeaseExpired })
	if l := h.lease(t, s.Task.ID); h.hub.Living() != 0 || l.Upstream.Proof != broker.ProofProbed || l.Upstream.DiesAt.Sub(l.IssuedAt) != time.Hour {
		t.Errorf("%d live, %+v", h.hub.Living(), l.Upstream)
	}
}

// TestWalkLostAnswer: a lease whose token was in a lost response is listed as pending until
// GitHub's lifetime of one hour has passed. It is never listed as revoked, and any number of
// such leases does not delay the revocation of other leases.
func TestWalkLostAnswer(t *testing.T) {
	t.Parallel()
	const lost = 8
	h := newFixture(t)
	other := h.open(t)
	if _, err := other.Ask(t, readWeb); err != nil {
		t.Fatal(err)
	}
	var tasks []string
	for range lost {
		h.hub.Break(githubtest.Fault{Method: "POST", Path: mintPath, Kind: githubtest.Cut, Times: 1})
		s := h.open(t)
		if _, err := s.Ask(t, readWeb); err == nil {
			t.Fatal("minted what was lost")
		}
		tasks = append(tasks, s.Task.ID)
		h.pass(time.Minute / 2) // the broker asks a provider that fails less often
	}
	living := h.hub.Living()
	// The answer to each waits a while for an end that does not come.
	var wg sync.WaitGroup
	for _, id := range tasks {
		wg.Go(func() {
			if done, err := h.env.Broker.CompleteTask(t.Context(), h.env.Principals[brokertest.Runner], id, broker.DefaultWait); err != nil || done.PendingRevocations != 1 {
				t.Errorf("pending %d, %v", done.PendingRevocations, err)
			}
		})
	}
	wg.Wait()
	if done := h.complete(t, other.Task.ID); done.PendingRevocations != 0 || h.hub.Living() != living-1 {
		t.Errorf("the end of another task waits: %+v", done.Credentials[0].Upstream)
	}
	first := tasks[0]
	h.until(t, 0, "an attempt has failed", func() bool { return h.lease(t, first).Upstream.Attempts > 0 })
	if l := h.lease(t, first); l.State != broker.LeaseRevoking || l.Upstream.LastError == "" {
		t.Errorf("not in sight: %s %+v", l.State, l.Upstream)
	}
	h.until(t, time.Minute, "settled", func() bool { return h.lease(t, first).State == broker.LeaseUnconfirmed })
	if l := h.lease(t, first); l.Upstream.Proof != broker.ProofExpired || h.clock.Now().Sub(l.IssuedAt) < time.Hour {
		t.Errorf("%+v", l.Upstream)
	}
}

// TestWalkOutage: a mint whose request did not reach GitHub is settled at once, so that an
// outage leaves no pending revocations.
func TestWalkOutage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, func(c *github.Config) { c.APIURL = "https://127.0.0.1:1" })
	s := h.open(t)
	if _, err := s.Ask(t, readWeb); err == nil {
		t.Fatal("minted without GitHub")
	}
	h.until(t, 0, "settled", func() bool { return h.lease(t, s.Task.ID).State == broker.LeaseRevoked })
	if l := h.lease(t, s.Task.ID); l.Upstream.Proof == broker.ProofProbed {
		t.Errorf("probed what never was: %+v", l.Upstream)
	}
}
