package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/redisstore"
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

// memory compares the name of the memory between processes.
func memory(t *testing.T, when, want string, by ...*redisstore.Store) {
	t.Helper()
	for i, s := range by {
		if got := s.Memory(); got != want {
			t.Errorf("%s, process %d calls the memory %q, want %q", when, i, got, want)
		}
	}
}

// renamed returns the name of a memory that replaced the one named old.
func renamed(t *testing.T, s *redisstore.Store, old string) string {
	t.Helper()
	name := s.Memory()
	if name == "" || name == old {
		t.Errorf("the memory after a loss is called %q, the one before was %q", name, old)
	}
	return name
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

//ebb:invariant I10 Each loss of the live store changes the DPoP nonce at every replica
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
	name := a.Memory()
	memory(t, "before the flush", name, b)
	c.do("flushall")
	if alive, err := a.Status(t.Context(), l.TaskID, l.ID, time.Now()); alive || !errors.Is(err, broker.ErrLost) {
		t.Errorf("after the flush Status is %t, %v", alive, err)
	}
	for range 2 {
		check(t, "a after the flush", a, broker.ErrLost)
		check(t, "b after the flush", b, broker.ErrLost)
		memory(t, "after the flush", "", a, b)
	}
	fresh := connect(t, c.config())
	check(t, "a newcomer after the flush", fresh, broker.ErrLost)

	// A refill: the revocation is published again, also to a reader with an old cursor.
	_, first, err := closeTask(t.Context(), a, "tsk_2")
	must(t, err)
	if !first {
		t.Errorf("the live store still knows the close")
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
	memory(t, "after the refill", renamed(t, a, name), b, fresh)
	if a.Losses() == before[0] || b.Losses() == before[1] {
		t.Errorf("losses: %d and %d, before %v", a.Losses(), b.Losses(), before)
	}

	// Data is lost again during the refill: the refilled state is incomplete.
	c.do("flushall")
	check(t, "a after the second flush", a, broker.ErrLost)
	c.do("flushall")
	if err := a.Mark(t.Context()); !errors.Is(err, broker.ErrLost) {
		t.Errorf("Mark after another flush: %v", err)
	}
	must(t, a.Mark(t.Context()))
	check(t, "a", a, nil)
}

// A loss that is over before the other process checks is still reported to it. The mere
// start of a process reports no loss.
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
	name := a.Memory()
	memory(t, "after a start", name, b, started)
	c.do("flushall")
	check(t, "a", a, broker.ErrLost)
	must(t, a.Mark(t.Context()))
	check(t, "b", b, nil)
	if b.Losses() == before {
		t.Error("b did not hear of the loss")
	}
	memory(t, "after the loss", renamed(t, a, name), b)
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
		return errors.Is(err, broker.ErrLost)
	})
	check(t, "after the restart", s, broker.ErrLost)
	if err := s.PutLease(t.Context(), l, broker.LeaseLimits{}, false); !errors.Is(err, broker.ErrLost) {
		t.Errorf("PutLease: %v", err)
	}
}

// A replica that lacks the last writes is like an older dump.
//
//ebb:invariant I10 Each loss of the live store changes the DPoP nonce at every replica
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
		return errors.Is(err, broker.ErrLost)
	})
	if alive, _ := b.Status(t.Context(), l.TaskID, l.ID, time.Now()); !alive {
		t.Errorf("the dump does not lack the close: this tests nothing")
	}
	for range 3 { // the loss remains, however often others raise their counters
		check(t, "a, whose close is gone", a, broker.ErrLost)
		_ = b.Check(t.Context())
	}
	_, _, err = closeTask(t.Context(), a, "tsk_1")
	must(t, err)
	before, name := b.Losses(), b.Memory()
	memory(t, "after the loss", "", a)
	must(t, a.Mark(t.Context()))
	check(t, "a", a, nil)
	check(t, "b", b, nil)
	if b.Losses() == before {
		t.Error("b, which lost nothing of its own, did not hear of a's loss")
	}
	memory(t, "after the refill", renamed(t, a, name), b)
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

	// Disconnect the replica, then close: the close is only on the master.
	master.do("acl", "setuser", "repl", "off")
	master.do("client", "kill", "type", "replica")
	master.until("the replica is gone", func() bool { return strings.Contains(master.try("info", "replication"), "connected_slaves:0") })
	_, _, err := closeTask(t.Context(), s, "tsk_1")
	must(t, err)
	if _, _, err := closeTask(t.Context(), safe, "tsk_1"); err == nil {
		t.Errorf("a close was acknowledged without its replica")
	}
	master.Kill()
	master.until("the failover", func() bool {
		_, err = s.Status(t.Context(), l.TaskID, l.ID, time.Now())
		return errors.Is(err, broker.ErrLost)
	})
	fresh := connect(t, config)
	if alive, err := fresh.Status(t.Context(), l.TaskID, l.ID, time.Now()); !alive || err != nil {
		t.Errorf("the replica does not lack the close: this tests nothing")
	}
	check(t, "after the failover", s, broker.ErrLost)
	if alive, err := fresh.Status(t.Context(), "tsk_2", "lse_tsk_2", time.Now()); alive || err != nil {
		t.Errorf("a close that the replica had confirmed is gone: %t, %v", alive, err)
	}
}

func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	c := start(t)
	config := c.config()
	config.WaitReplicas, config.Timeout = 1, 2*time.Second
	s := connect(t, config)
	must(t, s.Mark(t.Context()))
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

// After a flush no call reports that data is missing or a value is unused: neither the
// first call, before any Check, nor calls during the refill.
//
//ebb:invariant I6 After Redis was flushed, no call reports the lost data as inactive, unknown or unused
//ebb:invariant I6 After a Redis flush, calls that read the loss marker only when data is missing do not report that data as missing either
func TestFlushIsNoticedByEveryCall(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	claim := []broker.Claim{{Key: "dpop:x", Value: "1", Until: in(time.Hour)}}
	for name, call := range map[string]func(s *redisstore.Store, l broker.LiveLease) error{
		"Status": func(s *redisstore.Store, l broker.LiveLease) error {
			_, err := s.Status(t.Context(), l.TaskID, l.ID, time.Now())
			return err
		},
		"Admit": func(s *redisstore.Store, l broker.LiveLease) error {
			_, err := s.Admit(t.Context(), broker.Admission{TaskID: l.TaskID})
			return err
		},
		"claim": func(s *redisstore.Store, _ broker.LiveLease) error {
			_, err := s.Admit(t.Context(), broker.Admission{Claims: claim})
			return err
		},
		"PutLease": func(s *redisstore.Store, l broker.LiveLease) error {
			return s.PutLease(t.Context(), l, broker.LeaseLimits{}, false)
		},
		"Touch": func(s *redisstore.Store, l broker.LiveLease) error {
			_, err := s.Touch(t.Context(), l.TaskID, broker.Touch{Due: in(time.Minute)})
			return err
		},
		"Take": func(s *redisstore.Store, _ broker.LiveLease) error {
			_, err := s.Take(t.Context(), "tkt:x")
			return err
		},
		"pause": func(s *redisstore.Store, l broker.LiveLease) error {
			_, _, err := s.SetState(t.Context(), l.TaskID, broker.TaskPaused, time.Now(), in(time.Hour))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			s := connect(t, c.config())
			must(t, s.Mark(t.Context()))
			l := openTask(t, s, "tsk_1")
			if _, err := s.Admit(t.Context(), broker.Admission{Claims: claim}); err != nil {
				t.Fatal(err)
			}
			c.do("flushall")
			before := s.Losses()
			if err := call(s, l); !errors.Is(err, broker.ErrLost) || s.Losses() != before+1 {
				t.Errorf("the first call: %v, %d losses; want ErrLost and one loss", err, s.Losses()-before)
			}
			if err := call(s, l); name != "claim" && !errors.Is(err, broker.ErrLost) {
				t.Errorf("while it is lost: %v", err)
			}
			if _, err := s.Admit(t.Context(), broker.Admission{TaskID: "tsk_1", Refill: true}); !errors.Is(err, broker.ErrNotFound) {
				t.Errorf("a refill reads a task that is not there: %v", err)
			}
			must(t, s.Mark(t.Context()))
			openTask(t, s, "tsk_1")
			if alive, err := s.Status(t.Context(), l.TaskID, l.ID, time.Now()); !alive || err != nil {
				t.Errorf("after the refill: %t, %v", alive, err)
			}
		})
	}
}

// Answers of a server that may evict are not trusted until it may no longer evict and the
// LiveStore was refilled. The same holds for a server that could evict between two
// checks.
//
//ebb:invariant I6 Answers from a Redis that may evict or has evicted keys are not trusted until the live store is refilled
func TestEvictionAtRuntime(t *testing.T) {
	t.Parallel()
	c := start(t, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	clock := time.Now()
	config := c.config()
	config.Now = func() time.Time { return clock }
	s := connect(t, config)
	must(t, s.Mark(t.Context()))
	l := openTask(t, s, "tsk_1")
	doubtful := func(when string, want error) {
		t.Helper()
		clock = clock.Add(time.Minute)
		check(t, when, s, want)
		if alive, err := s.Status(t.Context(), l.TaskID, l.ID, clock); alive || !errors.Is(err, want) {
			t.Errorf("%s: Status is %t, %v", when, alive, err)
		}
		if _, err := s.Admit(t.Context(), broker.Admission{TaskID: l.TaskID}); !errors.Is(err, want) {
			t.Errorf("%s: Admit: %v", when, err)
		}
	}
	before := s.Losses()
	c.do("config", "set", "maxmemory-policy", "allkeys-lru")
	doubtful("while it may evict", broker.ErrEvicting)
	doubtful("still", broker.ErrEvicting)
	if _, err := s.Admit(t.Context(), broker.Admission{Claims: []broker.Claim{{Key: "k", Until: clock.Add(time.Minute)}}}); !errors.Is(err, broker.ErrEvicting) {
		t.Errorf("a claim while claims may be evicted: %v", err)
	}
	c.do("config", "set", "maxmemory-policy", "noeviction")
	doubtful("when it may not any more", broker.ErrLost)
	must(t, s.Mark(t.Context()))
	check(t, "after the refill", s, nil)
	if alive, err := s.Status(t.Context(), l.TaskID, l.ID, clock); !alive || err != nil || s.Losses() == before {
		t.Errorf("after the refill: %t, %v, %d losses", alive, err, s.Losses()-before)
	}

	c.do("config", "set", "maxmemory-policy", "allkeys-random", "maxmemory", "1")
	c.try("set", "one-too-many", strings.Repeat("x", 1000))
	c.do("config", "set", "maxmemory-policy", "noeviction", "maxmemory", "100mb")
	clock = clock.Add(time.Minute)
	check(t, "after a moment in which it evicted", s, broker.ErrLost)
}

// A Redis that refuses writes because its memory is full counts as down, with that
// reason.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	c := start(t, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	s := connect(t, c.config())
	must(t, s.Mark(t.Context()))
	c.do("config", "set", "maxmemory", "1")
	err := s.Check(t.Context())
	if reason, ok := errors.AsType[broker.Reason](err); !ok || !strings.Contains(string(reason), "maxmemory") {
		t.Errorf("Check of a server without memory: %v", err)
	}
	c.do("config", "set", "maxmemory", "100mb")
	check(t, "with memory again", s, nil)
}
