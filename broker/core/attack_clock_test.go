package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// H60: a clock that is set back causes refusals for a while, and no violations.
func TestAttackClockSetBack(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.TTL = 7200
	s := x.Open(t, spec)
	for range 12 { // claims are made and removed
		minted(t, s, "orders:eu/1:read")
		x.Clock.Add(time.Minute)
	}
	x.Clock.Add(-10 * time.Minute)
	for range 5 {
		_, _ = s.Ask(t, "orders:eu/1:read")
	}
	live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || live.Violations != 0 {
		t.Errorf("honest requests left %d violations (%v)", live.Violations, err)
	}
	x.Clock.Add(11 * time.Minute)
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Errorf("after the clock is right again: %v", err)
	}
}

// A proof that is nearly too old is claimed a moment later: that is no replay.
func TestAttackProofAtTheEdge(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	r := s.Request(t, "orders:eu/1:read")
	r.Possession.Proof.Until = x.Clock.Now().Add(-time.Second) // it waited for two seconds in a queue
	_, err := x.Broker.Token(t.Context(), r)
	if err != nil {
		t.Errorf("first use: %v", err)
	}
	_, err = x.Broker.Token(t.Context(), r)
	kindOf(t, err, broker.InvalidProof)
}

// The clocks of replicas differ a little.
func TestAttackReplicaWithAnotherClock(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	behind := x.replica(t, func(c *core.Config) { c.Now = func() time.Time { return x.Clock.Now().Add(-3 * time.Second) } })
	if !activeAt(t, x, behind, tok.Token.Reveal()) {
		t.Error("a token of a replica whose clock is three seconds ahead is inactive")
	}
	if _, err := behind.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err != nil {
		t.Errorf("a task of a replica whose clock is three seconds ahead does not mint: %v", err)
	}
}
