package broker_test

import (
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/brokertest"
)

// The shared ledger loses everything and one replica makes it complete again before
// the other has looked: what was used before must not be usable at that other one.
func TestAttackReplayAtTheOtherReplica(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, brokertest.Spec())
	used := s.Request(t, "orders:eu/1:read")
	if _, err := x.Broker.Token(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	assertion := x.Assertion(t, brokertest.Runner, x.Keys[brokertest.Runner])
	if _, err := x.Broker.AuthenticateAssertion(t.Context(), assertion, ""); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(2 * time.Second)
	x.memory.lose()
	x.replica(t) // finds it empty, refills and marks it
	if _, err := other.Token(t.Context(), used); err == nil {
		t.Error("a proof was used twice")
	} else {
		kindOf(t, err, broker.InvalidProof)
	}
	_, err := other.AuthenticateAssertion(t.Context(), assertion, "")
	kindOf(t, err, broker.Unauthenticated)
	if _, err := other.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err != nil {
		t.Errorf("a new proof: %v", err)
	}
}
