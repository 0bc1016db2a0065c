package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/liveness"
)

func holdHouse(t *testing.T, l broker.Liveness) (*target, *brokertest.Sandbox) {
	t.Helper()
	x := attacked(t, brokertest.Config{RealTime: true, Attestors: map[string]attest.Attestor{"lantern": newLantern()}, Liveness: map[string]broker.Liveness{"lantern": l}})
	s, _ := lit(t, x.Env, "a")
	return x, s
}

func hold(t *testing.T, b *core.Broker, s *brokertest.Sandbox, grace time.Duration) *liveness.Hold {
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

// on_sandbox_exit: nothing applies to control connections too.
func TestLostConnectionMayMeanNothing(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{OnSandboxExit: broker.ActionNothing})
	hold(t, x.Broker, s, 0).Lost(t.Context())
	eventually(t, "it is on the record", func() bool { return len(entriesOf(t, x.Env, s.Task.ID, audit.SandboxExited)) == 1 })
	staysOpen(t, x, s.Task.ID, 500*time.Millisecond)
}

// A sandbox reconnects while another replica checks for a connection: the note of the older
// connection must not replace the newer one.
func TestRaceOfConnections(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{})
	second, third := x.replica(t), x.replica(t)
	first := hold(t, x.Broker, s, 0)
	old := hold(t, second, s, 0)
	looking, goOn := make(chan struct{}, 9), make(chan struct{})
	x.liveStore.on("Put", func() error { looking <- struct{}{}; <-goOn; return nil })
	first.Lost(t.Context())
	<-looking // it has taken the second's note, and will put that back
	newest := make(chan *liveness.Hold, 1)
	go func() {
		h, err := third.Hold(t.Context(), lanternSubject(s), s.Env.Prove(t, s.Key), 0)
		if err != nil {
			t.Error(err)
		}
		newest <- h
	}()
	var h *liveness.Hold
	select {
	case h = <-newest:
	case <-time.After(300 * time.Millisecond): // it waits for the checking replica
	}
	close(goOn)
	if h == nil {
		h = <-newest
	}
	eventually(t, "it was put back", func() bool { return x.liveStore.count("Put") >= 2 })
	old.Lost(t.Context())
	staysOpen(t, x, s.Task.ID, 2*time.Second)
	h.Lost(t.Context())
	eventually(t, "the last connection is the sandbox's end", func() bool { return stateOf(t, x.Env, s.Task.ID).State == broker.TaskClosed })
}

// After the LiveStore lost everything, the end of an old connection does not count as the exit of a
// sandbox that holds another one.
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

// An attacker who cuts a sandbox's connections cannot use up its limit while it reconnects each
// time.
func TestConnectionThatBreaksAgainAndAgain(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{})
	for range 10 {
		hold(t, x.Broker, s, liveness.MaxGrace).Lost(t.Context())
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
