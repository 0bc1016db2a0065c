package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// Evidence that was not recorded when it came still counts at every replica: the re-attestation
// deadline counts from the last evidence.
func TestReattestationCountsFromTheLastEvidence(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	x := attacked(t, brokertest.Config{Start: start, Attestors: map[string]attest.Attestor{"lantern": newLantern()},
		Liveness: map[string]broker.Liveness{"lantern": {Reattest: 10 * time.Minute, OnMissedAttestation: broker.ActionComplete}}})
	s, _ := lit(t, x.Env, "a")
	other := x.replica(t)
	show := func() {
		r := s.Request(t, "orders:eu/42:read")
		r.Subject = lanternSubject(s)
		if _, err := x.Broker.Token(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, later := range []time.Duration{4 * time.Minute, 2 * time.Minute} { // the second is not recorded at once
		x.Clock.Add(later)
		show()
	}
	to := func(at time.Duration) { x.Clock.Add(at - x.Clock.Now().Sub(start)) }
	for minute := 7; minute <= 16; minute++ {
		at, want := time.Duration(minute)*time.Minute, broker.TaskOpen
		if minute == 16 {
			want = broker.TaskClosed
		}
		to(at - 10*time.Second)
		x.Broker.WatchOpen(t.Context())
		to(at + 10*time.Second)
		other.WatchOpen(t.Context())
		x.Broker.WatchOpen(t.Context())
		if got := stateOf(t, x.Env, s.Task.ID); got.State != want {
			t.Fatalf("minute %d: %s (%s), want %s", minute, got.State, got.Cause, want)
		}
	}
}

// A clock that jumps ahead and returns ends no task for evidence that is too old only by the clock ahead.
//
//ebb:invariant I4 A brief forward jump of the clock closes no task, removes no replay claim, and causes no later refusal of a fresh proof
func TestReattestationClockAhead(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Attestors: map[string]attest.Attestor{"lantern": newLantern()},
		Liveness: map[string]broker.Liveness{"lantern": {Reattest: 10 * time.Minute, OnMissedAttestation: broker.ActionComplete}}})
	s, _ := lit(t, x.Env, "a")
	for _, by := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		x.Clock.Jump(by)
		x.Broker.WatchOpen(t.Context())
	}
	if got := stateOf(t, x.Env, s.Task.ID); got.State != broker.TaskOpen {
		t.Errorf("%s (%s)", got.State, got.Cause)
	}
}
