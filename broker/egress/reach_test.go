package egress_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// TestReachWhileItLives: the final check of an SSH connection succeeds only for the tool of the
// lease, while the lease is valid, and while its task is open and not paused.
//
//ebb:invariant I2 The egress proxy relays an SSH connection only under a live lease of the same task and tool that covers the host
func TestReachWhileItLives(t *testing.T) {
	t.Parallel()
	b := newPipeBed(t, sshServer)
	ops := b.Principals[brokertest.Operator]
	at, err := stricturl.ParseHost(b.host, 0)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := b.sshBox(t, "")
	task := x.s.Task.ID
	lease := b.certify(t, x.s, "ssh:web/deploy:login", "git")
	asked := func(what, tool, leaseID string, may bool) {
		t.Helper()
		_, err := b.Broker.Reach(t.Context(), broker.Caller{TaskID: task, Tool: tool}, leaseID, at)
		if (err == nil) != may || err != nil && broker.AsError(err).Kind == broker.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	asked("its tool", "git", lease, true)
	asked("another tool", "curl", lease, false)
	asked("no lease", "git", "lse_00000000000000000000000000000000", false)
	if _, err := b.Broker.PauseTask(t.Context(), ops, task, "look"); err != nil {
		t.Fatal(err)
	}
	asked("paused", "git", lease, false)
	if _, err := b.Broker.ResumeTask(t.Context(), ops, task); err != nil {
		t.Fatal(err)
	}
	asked("resumed", "git", lease, true)
	if _, err := b.Broker.RevokeLease(t.Context(), ops, lease, "test"); err != nil {
		t.Fatal(err)
	}
	asked("revoked", "git", lease, false)
	second := b.certify(t, x.s, "ssh:web/deploy:login", "git")
	asked("a second one", "git", second, true)
	if _, err := b.Broker.CompleteTask(t.Context(), ops, task, 0); err != nil {
		t.Fatal(err)
	}
	asked("its task is over", "git", second, false)
	x, _ = b.sshBox(t, "")
	task = x.s.Task.ID
	third := b.certify(t, x.s, "ssh:web/deploy:login", "git")
	asked("of another task", "git", second, false)
	asked("its own", "git", third, true)
	b.Clock.Add(time.Hour)
	asked("expired", "git", third, false)
}
