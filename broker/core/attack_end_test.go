package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// The LiveStore is lost between the two halves of a close, and a replica refills it from a database
// without that close.
//
//ebb:invariant I2
func TestAttackLossBetweenTheHalvesOfAnEnd(t *testing.T) {
	t.Parallel()
	t.Run("task", func(t *testing.T) {
		t.Parallel()
		x := attacked(t, brokertest.Config{})
		s := x.Open(t, brokertest.Spec())
		tok := minted(t, s, "orders:eu/1:read")
		var other *core.Broker
		x.store.on("Append.move", func() error {
			x.memory.lose()
			other = x.replica(t)
			return nil
		})
		if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait); err != nil {
			t.Fatal(err)
		}
		if activeAt(t, x, other, tok.Token.Reveal()) {
			t.Error("the end is acknowledged and the token is alive on the replica that refilled")
		}
		if _, err := other.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err == nil {
			t.Error("a completed task mints")
		}
	})
	t.Run("lease", func(t *testing.T) {
		t.Parallel()
		x := attacked(t, brokertest.Config{})
		tok := minted(t, x.Open(t, brokertest.Spec()), "orders:eu/1:read")
		var other *core.Broker
		x.store.on(audit.LeaseRevoked, func() error {
			x.memory.lose()
			other = x.replica(t)
			return nil
		})
		if _, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, ""); err != nil {
			t.Fatal(err)
		}
		if activeAt(t, x, other, tok.Token.Reveal()) {
			t.Error("the revocation is acknowledged and the token is alive on the replica that refilled")
		}
	})
}

// The dead-man's switch must not depend on a hanging database: all due tasks are refused at once.
func TestAttackLateStoreHoldsUpTheJanitor(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Heartbeat = 30
	var tokens []string
	for range 5 {
		tokens = append(tokens, minted(t, x.Open(t, spec), "orders:eu/1:read").Token.Reveal())
	}
	release := make(chan struct{})
	x.store.on("Append.move", func() error { <-release; return nil })
	x.janitor(t, x.Broker)
	t.Cleanup(func() { close(release) }) // before the janitor stops
	other := x.replica(t)
	x.Clock.Add(31 * time.Second)
	eventually(t, "all silent tasks are refused", func() bool {
		return !slices.ContainsFunc(tokens, func(tok string) bool { return activeAt(t, x, other, tok) })
	})
	x.memory.lose()
	if err := x.memory.get().Check(t.Context()); !errors.Is(err, broker.ErrLost) {
		t.Fatal(err)
	}
	eventually(t, "the loss of the live store is noticed", func() bool { return x.memory.get().Check(t.Context()) == nil })
}

// More due tasks than one round of the janitor takes: the next round follows at once.
func TestAttackManySilentTasks(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Heartbeat, spec.Ticket = 30, false
	for range 110 {
		if _, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec); err != nil {
			t.Fatal(err)
		}
	}
	x.Clock.Add(31 * time.Second)
	x.Broker.CloseDue(t.Context())
	if ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{Open: true}); err != nil || len(ts) > 0 {
		t.Errorf("%d are open (%v)", len(ts), err)
	}
	if n := x.liveStore.count("Due"); n != 2 {
		t.Errorf("it looked %d times", n)
	}
}

// A hanging LiveStore must not prevent the record of a close: a restart has only the database.
func TestAttackHangingLiveStoreHoldsUpTheRecord(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	release := make(chan struct{})
	defer close(release)
	for _, op := range []string{"SetState", "EndLease"} {
		x.liveStore.on(op, func() error { <-release; return errDown })
	}
	done := make(chan struct{}, 2)
	go func() {
		_, _ = x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), tok.LeaseID, "")
		done <- struct{}{}
	}()
	go func() {
		_, _ = x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
		done <- struct{}{}
	}()
	<-done
	<-done
	ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{s.Task.ID}})
	if err != nil || ts[0].State != broker.TaskClosed {
		t.Errorf("the end of the task is not on the record: %v", err)
	}
	if n := len(entries(t, x, broker.EntryFilter{Kind: audit.LeaseRevoked})); n != 1 {
		t.Error("the end of the credential is not on the record")
	}
}

// A process that is stopped with a pending close records it first.
//
//ebb:invariant I3
func TestAttackStoppedWithPendingRevocations(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on("Append.move", once(errDown))
	_, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
	kindOf(t, err, broker.Unavailable)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_ = x.Broker.Run(ctx)
	ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{s.Task.ID}})
	if err != nil || ts[0].State != broker.TaskClosed {
		t.Errorf("it stopped and took the end with it: %v", err)
	}
}

// A close must not wait for a database that does not answer: the LiveStore knows the task's owner.
//
//ebb:invariant I6 Completing a task takes effect without the database
func TestAttackHangingStoreHoldsUpAnEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	other := x.replica(t)
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	ctx, hangUp := context.WithCancel(t.Context())
	hang := func() error { <-ctx.Done(); return ctx.Err() }
	x.store.on("Tasks", hang)
	x.store.on("Append.move", hang)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
	}()
	eventually(t, "the task is refused", func() bool { return !activeAt(t, x, other, tok.Token.Reveal()) })
	hangUp()
	<-done
}

// The tasks of a live runner must not be closed because the database is unavailable.
func TestAttackHeartbeatWithoutStore(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	for _, op := range []string{"Append", "Tasks"} {
		x.store.on(op, func() error { return errDown })
	}
	if _, err := x.Broker.Beat(t.Context(), x.who(brokertest.Runner), s.Task.ID); err != nil {
		t.Errorf("a sign of life was refused: %v", err)
	}
	_, err := x.Broker.Beat(t.Context(), x.who(brokertest.Runner2), s.Task.ID)
	if err == nil {
		t.Error("another runner's sign of life was taken")
	}
}

// A replica starts while another one closes a task for cause: it must not overwrite the actor and
// the cause with a guess.
func TestAttackReplicaGuessesTheCause(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	x.store.on("Append.move", func() error { // refused in the LiveStore, not yet in the audit log
		x.janitor(t, x.replica(t))
		time.Sleep(1200 * time.Millisecond) // one round of its janitor, by the machine's clock
		return nil
	})
	if _, err := x.Broker.StopTask(t.Context(), x.who(brokertest.Operator), s.Task.ID, "leak", broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	task, err := x.Broker.Task(t.Context(), x.who(brokertest.Operator), s.Task.ID)
	if err != nil || task.Cause != broker.CauseStopped || task.ClosedBy != brokertest.Operator || task.Reason != "leak" {
		t.Errorf("closed by %s: %s %q (%v)", task.ClosedBy, task.Cause, task.Reason, err)
	}
	crashed := x.Open(t, brokertest.Spec())
	if _, _, err := x.memory.get().SetState(t.Context(), crashed.Task.ID, broker.TaskClosed, x.Clock.Now(), x.Clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	x.janitor(t, x.replica(t))
	x.Clock.Add(time.Minute)
	eventually(t, "an end that nobody finishes is finished", func() bool {
		ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{crashed.Task.ID}})
		return err == nil && ts[0].State == broker.TaskClosed
	})
}
