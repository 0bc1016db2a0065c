package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/liveness"
)

// A process that stops does not wait for grace periods: a sandbox whose connection just broke
// cannot reconnect to it, but may reconnect to another replica.
func TestGraceEndsNobodyOnceTheBrokerHasEnded(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Broker.Run(ctx) }()
	h := hold(t, x.Broker, s, liveness.MaxGrace)
	h.Lost(t.Context())
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := x.Broker.Holds(s.Task.ID); n != 0 {
		t.Errorf("%d connections are still looked after", n)
	}
	late := hold(t, x.Broker, s, 0)
	late.Lost(t.Context())
	staysOpen(t, x, s.Task.ID, 1500*time.Millisecond)
	if es := entriesOf(t, x.Env, s.Task.ID, audit.SandboxExited); len(es) != 0 {
		t.Errorf("%d exits are in the audit log", len(es))
	}
}

// The listener closes while requests in flight are answered, and sandboxes in their grace period
// cannot reconnect. An exit that an attestor reports still counts.
func TestGracesEndBeforeTheListener(t *testing.T) {
	t.Parallel()
	lamp := newLantern()
	x := attacked(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"lantern": lamp}, Liveness: map[string]broker.Liveness{"lantern": {}}})
	s, _ := lit(t, x.Env, "a")
	other, _ := lit(t, x.Env, "b")
	open, err := x.Broker.Hold(t.Context(), broker.Subject{TaskID: other.Task.ID, Evidence: &attest.Evidence{Attestor: "lantern", Document: []byte("b")}}, other.Env.Prove(t, other.Key), 0)
	if err != nil {
		t.Fatal(err)
	}
	hold(t, x.Broker, s, liveness.MaxGrace).Lost(t.Context())
	x.Broker.EndGraces()
	open.Lost(t.Context())
	for _, id := range []string{s.Task.ID, other.Task.ID} {
		eventually(t, "nobody waits for a sandbox to be back", func() bool { return x.Broker.Holds(id) == 0 })
		if got := stateOf(t, x.Env, id); got.State != broker.TaskOpen {
			t.Errorf("the task of a sandbox that cannot come back here is %s: %s", got.State, got.Cause)
		}
	}
	lamp.putOut("a")
	eventually(t, "an exit ends its task", func() bool { return stateOf(t, x.Env, s.Task.ID).State == broker.TaskClosed })
}

// An on_sandbox_exit action that has failed is tried once more when the broker stops, and no part
// of it runs afterwards.
func TestPauseOfTheDeadIsTriedOnceMoreAtTheEnd(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{OnSandboxExit: broker.ActionPause})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Broker.Run(ctx) }()
	x.liveStore.on("SetState", func() error { return context.DeadlineExceeded })
	hold(t, x.Broker, s, 0).Lost(t.Context())
	eventually(t, "it was tried twice", func() bool { return x.liveStore.count("SetState") >= 2 })
	x.liveStore.on("SetState", nil)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := stateOf(t, x.Env, s.Task.ID); got.State != broker.TaskPaused {
		t.Errorf("the task of a dead sandbox is %s", got.State)
	}
	if n := x.Broker.Holds(s.Task.ID); n != 0 {
		t.Errorf("%d connections are still looked after", n)
	}
}

// A replica that checks the note of a connection, and is delayed before it puts the note back, must
// not put it over a newer one.
func TestConnectionNotedWhileAnotherLooks(t *testing.T) {
	t.Parallel()
	x, s := holdHouse(t, broker.Liveness{})
	second, third := x.replica(t), x.replica(t)
	first := hold(t, x.Broker, s, 0)
	old := hold(t, second, s, 0)
	looking, goOn := make(chan struct{}, 9), make(chan struct{})
	x.liveStore.on("Put", func() error { looking <- struct{}{}; <-goOn; return nil })
	first.Lost(t.Context())
	<-looking // it has taken the second's note, and stalls
	newest := hold(t, third, s, 0)
	close(goOn)
	eventually(t, "the look is over", func() bool { return x.Broker.Holds(s.Task.ID) == 0 })
	old.Lost(t.Context())
	staysOpen(t, x, s.Task.ID, 2*time.Second)
	newest.Lost(t.Context())
	eventually(t, "the last connection is the sandbox's end", func() bool { return stateOf(t, x.Env, s.Task.ID).State == broker.TaskClosed })
}

// stumbler is an attestor whose first watch panics.
type stumbler struct {
	*lantern
	falls chan struct{}
}

func (s stumbler) Watch(ctx context.Context, id attest.Identity) (attest.Exit, error) {
	select {
	case <-s.falls:
		panic("what the other side sent")
	default:
		return s.lantern.Watch(ctx, id)
	}
}

// A watch that panics counts as a failed one, and does not affect the sandboxes and credentials of
// others.
func TestWatchThatPanics(t *testing.T) {
	t.Parallel()
	s := stumbler{newLantern(), make(chan struct{}, 1)}
	s.falls <- struct{}{}
	x := attacked(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"lantern": s}, Liveness: map[string]broker.Liveness{"lantern": {}}})
	sandbox, _ := lit(t, x.Env, "a")
	eventually(t, "it is watched again", func() bool { return s.asked() == 1 })
	s.putOut("a")
	eventually(t, "its task ends", func() bool { return stateOf(t, x.Env, sandbox.Task.ID).State == broker.TaskClosed })
}
