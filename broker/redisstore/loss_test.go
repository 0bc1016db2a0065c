package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/redisstore"
)

func connect(t *testing.T, c redisstore.Config) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func check(t *testing.T, who string, s *redisstore.Store, want error) {
	t.Helper()
	if err := s.Check(t.Context()); !errors.Is(err, want) {
		t.Errorf("Check of %s: got %v, want %v", who, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openTask(t *testing.T, s *redisstore.Store, id string) broker.LiveLease {
	t.Helper()
	now := time.Now()
	must(t, s.PutTask(t.Context(), broker.Live{Task: broker.Task{ID: id, State: broker.TaskOpen}, Due: now.Add(time.Second)}, now.Add(time.Hour)))
	l := broker.LiveLease{ID: "lse_" + id, TaskID: id, ExpiresAt: now.Add(time.Hour)}
	must(t, s.PutLease(t.Context(), l, broker.LeaseLimits{}, false))
	return l
}

func closeTask(ctx context.Context, s *redisstore.Store, id string) (broker.Counts, bool, error) {
	return s.SetState(ctx, id, broker.TaskClosed, time.Now(), time.Now().Add(time.Hour))
}

func TestFlush(t *testing.T) {
	t.Parallel()
	c := start(t)
	a, b := connect(t, c.config()), connect(t, c.config())
	check(t, "a, not marked", a, broker.ErrLost)
	must(t, a.Mark(t.Context()))
	check(t, "a", a, nil)
	check(t, "b", b, nil)
	l := openTask(t, a, "tsk_1")
	openTask(t, a, "tsk_2")
	_, _, err := closeTask(t.Context(), a, "tsk_2")
	must(t, err)
	_, cursor, err := b.Follow(t.Context(), "", 10, 0)
	must(t, err)

	waiting := make(chan []broker.Event)
	go func() {
		evs, _, _ := b.Follow(t.Context(), cursor, 10, 20*time.Second)
		waiting <- evs
	}()
	before := []int64{a.Losses(), b.Losses()}
	c.do("flushall")
	if alive, err := a.Status(t.Context(), l.TaskID, l.ID, time.Now()); alive || err != nil {
		t.Errorf("after the flush Status is %t, %v", alive, err)
	}
	for range 2 {
		check(t, "a after the flush", a, broker.ErrLost)
		check(t, "b after the flush", b, broker.ErrLost)
	}
	fresh := connect(t, c.config())
	check(t, "a newcomer after the flush", fresh, broker.ErrLost)

	// A refill: the end is published again, to a reader with an old cursor too.
	_, first, err := closeTask(t.Context(), a, "tsk_2")
	must(t, err)
	if !first {
		t.Errorf("the ledger still knows the close")
	}
	if evs := <-waiting; len(evs) != 1 || evs[0].TaskID != "tsk_2" {
		t.Errorf("the waiting reader got %v", evs)
	}
	evs, _, err := b.Follow(t.Context(), cursor, 10, 0)
	if err != nil || len(evs) != 1 {
		t.Errorf("an old cursor gets %v, %v", evs, err)
	}
	openTask(t, a, "tsk_1")
	must(t, a.Mark(t.Context()))
	check(t, "a after the refill", a, nil)
	check(t, "b after the refill of a", b, nil)
	check(t, "the newcomer after the refill of a", fresh, nil)
	if a.Losses() == before[0] || b.Losses() == before[1] {
		t.Errorf("losses: %d and %d, before %v", a.Losses(), b.Losses(), before)
	}

	// Lost again while it is refilled: what was refilled is not complete.
	c.do("flushall")
	check(t, "a after the second flush", a, broker.ErrLost)
	c.do("flushall")
	if err := a.Mark(t.Context()); !errors.Is(err, broker.ErrLost) {
		t.Errorf("Mark after another flush: %v", err)
	}
	must(t, a.Mark(t.Context()))
	check(t, "a", a, nil)
}

// The loss is over before the other process looks: it hears of it all the same, and
// of nothing when a process merely starts.
func TestLossBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	c := start(t)
	a, b := connect(t, c.config()), connect(t, c.config())
	must(t, a.Mark(t.Context()))
	check(t, "a", a, nil)
	check(t, "b", b, nil)
	before := b.Losses()
	started := connect(t, c.config())
	check(t, "another that starts", started, nil)
	must(t, started.Mark(t.Context()))
	check(t, "a after a start", a, nil)
	check(t, "b after a start", b, nil)
	if b.Losses() != before {
		t.Errorf("%d losses by a start", b.Losses()-before)
	}
	c.do("flushall")
	check(t, "a", a, broker.ErrLost)
	must(t, a.Mark(t.Context()))
	check(t, "b", b, nil)
	if b.Losses() == before {
		t.Error("b did not hear of the loss")
	}
	before = b.Losses()
	check(t, "b", b, nil)
	if b.Losses() != before {
		t.Error("the same loss counts twice")
	}
}

func TestRestartWithoutData(t *testing.T) {
	t.Parallel()
	c := start(t)
	s := connect(t, c.config())
	must(t, s.Mark(t.Context()))
	check(t, "before", s, nil)
	l := openTask(t, s, "tsk_1")
	c.Kill()
	unreachable(t, s)
	c.Start()
	c.until("the client reconnects", func() bool {
		_, err := s.Status(t.Context(), l.TaskID, l.ID, time.Now())
		return err == nil
	})
	check(t, "after the restart", s, broker.ErrLost)
	if err := s.PutLease(t.Context(), l, broker.LeaseLimits{}, false); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("PutLease: %v", err)
	}
}

// A replica that had not received the last writes is the same as an older dump.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	c := start(t, "--dbfilename", "d.rdb")
	a, b := connect(t, c.config()), connect(t, c.config())
	must(t, a.Mark(t.Context()))
	l := openTask(t, a, "tsk_1")
	check(t, "a", a, nil)
	check(t, "b", b, nil)
	c.do("save")
	_, _, err := closeTask(t.Context(), a, "tsk_1")
	must(t, err)
	c.Kill()
	c.Start()
	c.until("the client reconnects", func() bool {
		_, err := a.Status(t.Context(), l.TaskID, l.ID, time.Now())
		return err == nil
	})
	if alive, _ := a.Status(t.Context(), l.TaskID, l.ID, time.Now()); !alive {
		t.Errorf("the dump does not lack the close: this tests nothing")
	}
	for range 3 { // it stays lost, however often others raise their counters
		check(t, "a, whose close is gone", a, broker.ErrLost)
		_ = b.Check(t.Context())
	}
	_, _, err = closeTask(t.Context(), a, "tsk_1")
	must(t, err)
	before := b.Losses()
	must(t, a.Mark(t.Context()))
	check(t, "a", a, nil)
	check(t, "b", b, nil)
	if b.Losses() == before {
		t.Error("b, which lost nothing of its own, did not hear of a's loss")
	}
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	master := start(t)
	master.do("acl", "setuser", "repl", "on", ">pw", "+psync", "+replconf", "+ping")
	replica := start(t, "--replicaof", strings.Replace(master.Addr, ":", " ", 1), "--masteruser", "repl", "--masterauth", "pw")
	master.until("the replica is in sync", func() bool { return master.try("wait", 1, 100) == "1" })
	watch := sentinel(t, master)
	watch.until("the Sentinel knows the replica", func() bool { return strings.Contains(watch.try("sentinel", "replicas", "m"), replica.Addr) })

	config := redisstore.Config{Addrs: []string{watch.Addr}, MasterName: "m", Prefix: "t", Timeout: 8 * time.Second, WaitReplicas: 1}
	safe := connect(t, config)
	config.WaitReplicas = 0
	s := connect(t, config)
	must(t, s.Mark(t.Context()))
	check(t, "before", s, nil)
	l := openTask(t, s, "tsk_1")
	openTask(t, s, "tsk_2")
	if c, first, err := closeTask(t.Context(), safe, "tsk_2"); err != nil || !first || c.Live != 1 {
		t.Errorf("a close that waits for the replica: %+v, %t, %v", c, first, err)
	}

	// Cut the replica off, then close: the close is on the master alone.
	master.do("acl", "setuser", "repl", "off")
	master.do("client", "kill", "type", "replica")
	master.until("the replica is gone", func() bool { return strings.Contains(master.try("info", "replication"), "connected_slaves:0") })
	_, _, err := closeTask(t.Context(), s, "tsk_1")
	must(t, err)
	if _, _, err := closeTask(t.Context(), safe, "tsk_1"); err == nil {
		t.Errorf("a close was acknowledged without its replica")
	}
	master.Kill()
	var alive bool
	master.until("the failover", func() bool {
		alive, err = s.Status(t.Context(), l.TaskID, l.ID, time.Now())
		return err == nil
	})
	if !alive {
		t.Errorf("the replica does not lack the close: this tests nothing")
	}
	check(t, "after the failover", s, broker.ErrLost)
	if alive, err := s.Status(t.Context(), "tsk_2", "lse_tsk_2", time.Now()); alive || err != nil {
		t.Errorf("a close that the replica had confirmed is gone: %t, %v", alive, err)
	}
}

func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	c := start(t)
	config := c.config()
	config.WaitReplicas, config.Timeout = 1, 2*time.Second
	s := connect(t, config)
	l := openTask(t, s, "tsk_1")
	if _, _, err := closeTask(t.Context(), s, "tsk_1"); err == nil {
		t.Errorf("a close without a replica was acknowledged")
	}
	if alive, err := s.Status(t.Context(), l.TaskID, l.ID, time.Now()); alive || err != nil {
		t.Errorf("it is not closed all the same: %t, %v", alive, err)
	}
	if _, err := s.EndLease(t.Context(), l, time.Now()); err == nil {
		t.Errorf("an end without a replica was acknowledged")
	}
}
