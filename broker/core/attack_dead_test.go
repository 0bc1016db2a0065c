package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// The exit of a sandbox during a pause for another reason is not forgotten: when that pause is
// resumed, the pause for the exit follows.
func TestExitDuringAPause(t *testing.T) {
	t.Parallel()
	l := newLantern()
	e := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"lantern": l},
		Liveness: map[string]broker.Liveness{"lantern": {OnSandboxExit: broker.ActionPause}}})
	s, _ := lit(t, e, "a")
	runner := e.Principals[brokertest.Runner]
	if _, err := e.Broker.PauseTask(t.Context(), runner, s.Task.ID, "a look at it"); err != nil {
		t.Fatal(err)
	}
	l.putOut("a")
	eventually(t, "its exit is in the audit log", func() bool { return len(entriesOf(t, e, s.Task.ID, audit.SandboxExited)) == 1 })
	if got := stateOf(t, e, s.Task.ID); got.PausedBy != runner.ID {
		t.Errorf("paused by %q: whose pause it is was lost", got.PausedBy)
	}
	if _, err := e.Broker.ResumeTask(t.Context(), runner, s.Task.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pause for its exit follows", func() bool { return stateOf(t, e, s.Task.ID).State == broker.TaskPaused })
	// The runner can resume that one, once.
	if _, err := e.Broker.ResumeTask(t.Context(), runner, s.Task.ID); err != nil {
		t.Fatal(err)
	}
	staysOpen(t, &target{Env: e}, s.Task.ID, 3*time.Second)
}
