package broker_test

import (
	"testing"
	"time"

	"ebb/attest"
	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
)

func holdHouse(t *testing.T, l broker.Liveness) (*target, *brokertest.Sandbox) {
	t.Helper()
	x := attacked(t, brokertest.Config{RealTime: true, Attestors: map[string]attest.Attestor{"lantern": newLantern()}, Liveness: map[string]broker.Liveness{"lantern": l}})
	s, _ := lit(t, x.Env, "a")
	return x, s
}

func hold(t *testing.T, b *broker.Broker, s *brokertest.Sandbox, grace time.Duration) *broker.Hold {
	t.Helper()
	h, err := b.Hold(t.Context(), lanternSubject(s), s.Env.Prove(t, s.Key), grace)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func lanternSubject(s *brokertest.Sandbox) broker.Subject {
	return broker.Subject{TaskID: s.Task.ID, Evidence: &attest.Evidence{Attestor: "lantern", Document: []byte("a")}, Fault: broker.Unauthenticated}
}

func staysOpen(t *testing.T, x *target, id string, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got := stateOf(t, x.Env, id); got.State != broker.TaskOpen {
			t.Fatalf("the task of a sandbox that is alive is %s: %s", got.State, got.Cause)
		}
	}
}

// on_death: nothing is said of control connections too.
func TestLostConnectionMayMeanNothing(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{OnDeath: broker.SequelNothing})
	hold(t, x.Broker, s, 0).Lost(t.Context())
	eventually(t, "it is on the record", func() bool { return len(entriesOf(t, x.Env, s.Task.ID, audit.SandboxDied)) == 1 })
	staysOpen(t, x, s.Task.ID, 500*time.Millisecond)
}

// A sandbox connects again at the very moment in which another replica looks whether
// it has: it must not be that replica's note of an older connection that remains.
func TestRaceOfConnections(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{})
	second, third := x.replica(t), x.replica(t)
	first := hold(t, x.Broker, s, 0)
	old := hold(t, second, s, 0)
	looking, goOn := make(chan struct{}, 9), make(chan struct{})
	x.ledger.on("Put", func() error { looking <- struct{}{}; <-goOn; return nil })
	first.Lost(t.Context())
	<-looking // it has taken out the second's, and will put that back
	newest := make(chan *broker.Hold, 1)
	go func() {
		h, err := third.Hold(t.Context(), lanternSubject(s), s.Env.Prove(t, s.Key), 0)
		if err != nil {
			t.Error(err)
		}
		newest <- h
	}()
	var h *broker.Hold
	select {
	case h = <-newest:
	case <-time.After(300 * time.Millisecond): // it waits for the one who looks
	}
	close(goOn)
	if h == nil {
		h = <-newest
	}
	eventually(t, "it was put back", func() bool { return x.ledger.count("Put") >= 2 })
	old.Lost(t.Context())
	staysOpen(t, x, s.Task.ID, 2*time.Second)
	h.Lost(t.Context())
	eventually(t, "the last connection is the sandbox's end", func() bool { return stateOf(t, x.Env, s.Task.ID).State == broker.TaskClosed })
}

// A ledger that lost everything does not make the end of an old connection that of
// a sandbox that holds another.
func TestConnectionsOutliveALoss(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{})
	first := hold(t, x.Broker, s, 0)
	other := x.replica(t)
	second := hold(t, other, s, 0)
	x.memory.lose()
	second.Renew(t.Context())
	first.Lost(t.Context())
	staysOpen(t, x, s.Task.ID, 4*time.Second)
	second.Lost(t.Context())
	eventually(t, "its end counts", func() bool { return stateOf(t, x.Env, s.Task.ID).State == broker.TaskClosed })
}

// Whoever cuts a sandbox's connections must not be able to make it run out of them
// while it is back each time.
func TestConnectionThatBreaksAgainAndAgain(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{})
	for range 10 {
		hold(t, x.Broker, s, broker.MaxGrace).Lost(t.Context())
		eventually(t, "an earlier one has made way", func() bool { return x.Broker.Holds(s.Task.ID) == 1 })
	}
	for n := range 4 {
		hold(t, x.Broker, s, 0)
		eventually(t, "the broken one is gone", func() bool { return x.Broker.Holds(s.Task.ID) == n+1 })
	}
	if _, err := x.Broker.Hold(t.Context(), lanternSubject(s), s.Env.Prove(t, s.Key), 0); err == nil || broker.AsError(err).Kind != broker.Conflict {
		t.Errorf("got %v", err)
	}
}
