package core_test

import (
	"sync/atomic"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// While all places are taken, mints and introspections get "try again". Revocations, closes and
// heartbeats still succeed.
//
//ebb:invariant I12 If all slots are in use, mints and introspections wait at most half a second, then get 503 with Retry-After
func TestCrowd(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Heartbeat = 60
	s := e.Open(t, spec)
	tok, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	_, leave := e.Broker.Crowd()
	_, err = s.Ask(t, "orders:eu/1:read")
	if got := kindOf(t, err, broker.Unavailable); got.RetryAfter <= 0 {
		t.Errorf("a mint is not told when to come again: %+v", got)
	}
	_, err = e.Broker.Introspect(t.Context(), e.Principals[brokertest.Server], tok.Token.Reveal())
	if got := kindOf(t, err, broker.Unavailable); got.RetryAfter <= 0 {
		t.Errorf("an introspection is not told when to come again: %+v", got)
	}
	runner := e.Principals[brokertest.Runner]
	if _, err := e.Broker.Beat(t.Context(), runner, s.Task.ID); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
	if _, err := e.Broker.RevokeLease(t.Context(), runner, tok.LeaseID, "leaked"); err != nil {
		t.Errorf("a revocation: %v", err)
	}
	if _, err := e.Broker.CompleteTask(t.Context(), runner, s.Task.ID, 0); err != nil {
		t.Errorf("the end of the task: %v", err)
	}
	leave()
	if e.Active(t, tok.Token.Reveal()) {
		t.Error("alive after its end")
	}
}

// A mint at a third party holds no place during the call: a hanging one does not block other
// callers.
//
//ebb:invariant I12 A mint gives up its slot before ebb calls the third party, so that a slow provider blocks no other request
func TestCrowdOfAThirdParty(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true}})
	s := x.Open(t, upSpec())
	var free atomic.Int64
	x.up.Before(func(op, _ string) {
		if op == brokertest.OpMint {
			n, leave := x.Broker.Crowd()
			leave()
			free.Store(int64(n))
		}
	})
	minted(t, s, "up:a:read")
	if free.Load() != core.CrowdPlaces {
		t.Errorf("%d of %d places were free during the provider's call", free.Load(), core.CrowdPlaces)
	}
}
