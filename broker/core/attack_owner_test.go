package core_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// I12: with any number of tasks and delegates, an owner holds at most the allowed number of leases
// at one time. Ends free places; the loss of the LiveStore frees none.
//
//ebb:invariant I12 The number of live credentials of an owner is limited, over all of the owner's tasks
func TestAttackOwnerHoldsWithoutEnd(t *testing.T) {
	t.Parallel()
	const scope = "orders:eu/1:read"
	x := attacked(t, brokertest.Config{Limits: broker.Limits{OwnerLive: 3}})
	first, second := x.Open(t, delegating()), x.Open(t, brokertest.Spec())
	child := first.Delegate(t, ceiling(scope))
	others := brokertest.Spec()
	others.Owner = "someone@example.com"
	other := x.Open(t, others)
	last := minted(t, first, scope)
	minted(t, child, scope)
	minted(t, second, scope)
	full := func(when string) {
		t.Helper()
		for _, s := range []*brokertest.Sandbox{first, child, second} {
			tok, err := s.Ask(t, scope)
			if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 || !tok.Token.Empty() {
				t.Errorf("%s: told to come again in %s", when, e.RetryAfter)
			}
		}
	}
	full("at the cap")
	minted(t, other, scope)
	x.memory.lose()
	after := x.replica(t) // refills
	full("after a loss")
	if _, err := after.RevokeLease(t.Context(), x.who(brokertest.Runner), last.LeaseID, ""); err != nil {
		t.Fatal(err)
	}
	minted(t, second, scope)
	full("one revoked, one issued")
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), second.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	minted(t, first, scope)
	minted(t, child, scope)
	if _, err := first.Ask(t, scope); err == nil {
		t.Error("over the cap")
	}
	x.Clock.Add(20 * time.Minute) // all have expired
	for range 3 {
		minted(t, first, scope)
	}
}

// Of concurrent requests, exactly as many succeed as there are places: own tokens and credentials
// of third parties count alike, and refused requests leave nothing behind.
//
//ebb:invariant I12 The number of live credentials of an owner is limited, over all of the owner's tasks
func TestRaceOwnerCap(t *testing.T) {
	t.Parallel()
	const places = 5
	x := thirdParty(t, shape{config: brokertest.Config{Limits: broker.Limits{OwnerLive: places}}})
	var requests []broker.TokenRequest
	for range 4 {
		s := x.Open(t, upSpec())
		for range 3 {
			requests = append(requests, s.Request(t, "orders:eu/1:read"), s.Request(t, "up:a:read"))
		}
	}
	var issued, third atomic.Int32
	var wg sync.WaitGroup
	for _, r := range requests {
		wg.Go(func() {
			tok, err := x.Broker.Token(t.Context(), r)
			if err != nil {
				kindOf(t, err, broker.TooMany)
				return
			}
			issued.Add(1)
			if tok.Scopes.String() == "up:a:read" {
				third.Add(1)
			}
		})
	}
	wg.Wait()
	if issued.Load() != places || x.up.Minted() != int(third.Load()) {
		t.Errorf("%d were issued in %d places; %d of the provider, which made %d", issued.Load(), places, third.Load(), x.up.Minted())
	}
}
