package broker_test

import (
	"testing"
	"time"

	"ebb/attest"
	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
)

// A sandbox that dies while its task is paused for another reason is not forgotten:
// whoever resumes the task does not know of it, and the pause for it follows.
func TestDeathDuringAPause(t *testing.T) {
	t.Parallel()
	l := newLantern()
	e := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"lantern": l},
		Liveness: map[string]broker.Liveness{"lantern": {OnDeath: broker.SequelPause}}})
	s, _ := lit(t, e, "a")
	runner := e.Principals[brokertest.Runner]
	if _, err := e.Broker.PauseTask(t.Context(), runner, s.Task.ID, "a look at it"); err != nil {
		t.Fatal(err)
	}
	l.putOut("a")
	eventually(t, "its death is on the record", func() bool { return len(entriesOf(t, e, s.Task.ID, audit.SandboxDied)) == 1 })
	if got := stateOf(t, e, s.Task.ID); got.PausedBy != runner.ID {
		t.Errorf("paused by %q: whose pause it is was lost", got.PausedBy)
	}
	if _, err := e.Broker.ResumeTask(t.Context(), runner, s.Task.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pause for its death follows", func() bool { return stateOf(t, e, s.Task.ID).State == broker.TaskPaused })
	// That one is for the runner to undo, once and for all.
	if _, err := e.Broker.ResumeTask(t.Context(), runner, s.Task.ID); err != nil {
		t.Fatal(err)
	}
	staysOpen(t, &target{Env: e}, s.Task.ID, 3*time.Second)
}
