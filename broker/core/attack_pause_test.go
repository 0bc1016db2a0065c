package core_test

import (
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// An operator pauses a task because of its runner: the runner must not resume it, not even after a
// pause of its own, before or at the same time.
func TestAttackRunnerLiftsTheOperatorsPause(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	runner, op := x.who(brokertest.Runner), x.who(brokertest.Operator)
	s := x.Open(t, brokertest.Spec())
	if task, err := x.Broker.PauseTask(t.Context(), op, s.Task.ID, "look"); err != nil || task.PausedBy != brokertest.Operator || task.PausedAs != broker.RoleOperator {
		t.Fatalf("%+v %v", task, err)
	}
	_, err := x.Broker.ResumeTask(t.Context(), runner, s.Task.ID)
	kindOf(t, err, broker.Forbidden)
	_, err = x.Broker.PauseTask(t.Context(), runner, s.Task.ID, "mine")
	kindOf(t, err, broker.Forbidden)
	asRunner := op // a token narrowed to one role
	asRunner.Roles = []broker.Role{broker.RoleRunner}
	if _, err = x.Broker.ResumeTask(t.Context(), asRunner, s.Task.ID); err == nil {
		t.Error("resumed without the role")
	}
	_, err = s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Denied)
	x.memory.lose()
	b := x.replica(t)
	_, err = b.ResumeTask(t.Context(), runner, s.Task.ID)
	kindOf(t, err, broker.Forbidden)
	if _, err := b.ResumeTask(t.Context(), op, s.Task.ID); err != nil {
		t.Fatal(err)
	}
	for range 10 { // and while the operator does it
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = b.PauseTask(t.Context(), runner, s.Task.ID, "mine") })
		wg.Go(func() { _, _ = b.ResumeTask(t.Context(), runner, s.Task.ID) })
		if _, err := b.PauseTask(t.Context(), op, s.Task.ID, "look"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		_, err := b.Token(t.Context(), s.Request(t, "orders:eu/1:read"))
		kindOf(t, err, broker.Denied)
		if _, err := b.ResumeTask(t.Context(), op, s.Task.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.PauseTask(t.Context(), op, s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CompleteTask(t.Context(), runner, s.Task.ID, broker.DefaultWait); err != nil {
		t.Errorf("a pause is in the way of the end: %v", err)
	}
}

// A runner resumes while an operator pauses: the audit log and the LiveStore agree.
func TestAttackPauseRacingResume(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	other := x.replica(t)
	x.store.on(audit.TaskPaused, once(nil))
	var resumed sync.Once
	x.store.onDone(audit.TaskResumed, func() error { // the resume is in the audit log, and the pause overtakes it
		resumed.Do(func() {
			if _, err := other.PauseTask(t.Context(), x.who(brokertest.Operator), s.Task.ID, "suspicious"); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	if _, err := x.Broker.PauseTask(t.Context(), x.who(brokertest.Operator), s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	_, _ = x.Broker.ResumeTask(t.Context(), x.who(brokertest.Runner), s.Task.ID)
	task, err := x.Broker.Task(t.Context(), x.who(brokertest.Operator), s.Task.ID)
	if err != nil || task.State != broker.TaskPaused {
		t.Fatalf("%s %v", task.State, err)
	}
	if _, err := s.Ask(t, "orders:eu/1:read"); err == nil {
		t.Error("a task that is paused on the record mints")
	}
}
