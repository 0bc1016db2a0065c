package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
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
	must(t, s.PutLease(t.Context(), l, 0, false))
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

func TestRestartWithoutData(t *testing.T) {
	t.Parallel()
	c := start(t)
	s := connect(t, c.config())
	must(t, s.Mark(t.Context()))
	check(t, "before", s, nil)
	l := openTask(t, s, "tsk_1")
	c.kill()
	unreachable(t, s)
	c.run()
	c.until("the client reconnects", func() bool {
		_, err := s.Status(t.Context(), l.TaskID, l.ID, time.Now())
		return err == nil
	})
	check(t, "after the restart", s, broker.ErrLost)
	if err := s.PutLease(t.Context(), l, 0, false); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("PutLease: %v", err)
	}
}

// unreachable asserts that no call gives an answer, and that none takes long.
func unreachable(t *testing.T, s *redisstore.Store) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	l := broker.LiveLease{ID: "lse_1", TaskID: "tsk_1", ExpiresAt: now.Add(time.Minute)}
	for name, call := range map[string]func() error{
		"PutTask": func() error {
			return s.PutTask(ctx, broker.Live{Task: broker.Task{ID: "tsk_1", State: broker.TaskOpen}, Due: now}, now)
		},
		"SetState": func() error { _, _, err := closeTask(ctx, s, "tsk_1"); return err },
		"Touch":    func() error { _, err := s.Touch(ctx, "tsk_1", broker.Touch{Denials: 1}); return err },
		"Due":      func() error { _, err := s.Due(ctx, now, now, 1); return err },
		"PutLease": func() error { return s.PutLease(ctx, l, 0, false) },
		"EndLease": func() error { _, err := s.EndLease(ctx, l, now); return err },
		"Status":   func() error { _, err := s.Status(ctx, "tsk_1", "lse_1", now); return err },
		"Follow":   func() error { _, _, err := s.Follow(ctx, "", 1, time.Minute); return err },
		"Admit": func() error {
			_, err := s.Admit(ctx, broker.Admission{TaskID: "tsk_1", Claims: []broker.Claim{{Key: "k", Until: now.Add(time.Minute)}}})
			return err
		},
		"Put":  func() error { return s.Put(ctx, "k", "v", now.Add(time.Minute)) },
		"Take": func() error { _, err := s.Take(ctx, "k"); return err },
		"Pace": func() error {
			_, _, err := s.Pace(ctx, "k", now, time.Second, time.Second, now.Add(time.Minute))
			return err
		},
		"Check": func() error { return s.Check(ctx) },
		"Mark":  func() error { return s.Mark(ctx) },
	} {
		began := time.Now()
		err := call()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		if err == nil {
			t.Errorf("%s gave an answer", name)
		}
		for _, judged := range []error{broker.ErrNotFound, broker.ErrDone, broker.ErrClaimed, broker.ErrTaskClosed, broker.ErrTaskPaused, broker.ErrCap, broker.ErrLost} {
			if errors.Is(err, judged) {
				t.Errorf("%s judged: %v", name, err)
			}
		}
	}
}

func TestHangs(t *testing.T) {
	t.Parallel()
	c := start(t)
	config := c.config()
	config.Timeout = 300 * time.Millisecond
	s := connect(t, config)
	must(t, s.Mark(t.Context()))
	l := openTask(t, s, "tsk_1")
	config.Timeout = 5 * time.Second
	patient := connect(t, config)
	openTask(t, patient, "tsk_2")
	c.signal(syscall.SIGSTOP)
	unreachable(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, call := range map[string]func() error{
		"Status": func() error { _, err := patient.Status(ctx, l.TaskID, l.ID, time.Now()); return err },
		"Take":   func() error { _, err := patient.Take(ctx, "k"); return err },
	} {
		began := time.Now()
		if err := call(); err == nil || time.Since(began) > 2*time.Second {
			t.Errorf("%s outlived its context: %v after %s", name, err, time.Since(began))
		}
	}
	c.signal(syscall.SIGCONT)
	c.until("it works again", func() bool { return s.Check(t.Context()) == nil })
	// Closed while nobody could hear the answer; a closed task stays closed.
	if alive, err := s.Status(t.Context(), l.TaskID, l.ID, time.Now()); err != nil {
		t.Errorf("Status: %t, %v", alive, err)
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
	c.kill()
	c.run()
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
	must(t, a.Mark(t.Context()))
	check(t, "a", a, nil)
	check(t, "b", b, nil)
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	master := start(t)
	master.do("acl", "setuser", "repl", "on", ">pw", "+psync", "+replconf", "+ping")
	replica := start(t, "--replicaof", "127.0.0.1 "+master.port(), "--masteruser", "repl", "--masterauth", "pw")
	master.until("the replica is in sync", func() bool { return master.try("wait", 1, 100) == "1" })
	watch := sentinel(t, master)
	watch.until("the Sentinel knows the replica", func() bool { return strings.Contains(watch.try("sentinel", "replicas", "m"), replica.port()) })

	config := redisstore.Config{Addrs: []string{watch.addr}, MasterName: "m", Prefix: "t", Timeout: time.Second, WaitReplicas: 1}
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
	master.kill()
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
	config.WaitReplicas, config.Timeout = 1, 200*time.Millisecond
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

func TestEviction(t *testing.T) {
	t.Parallel()
	c := start(t)
	now := time.Now()
	config := c.config()
	config.Now = func() time.Time { return now }
	s := connect(t, config)
	must(t, s.Mark(t.Context()))
	check(t, "noeviction", s, nil)
	c.do("config", "set", "maxmemory-policy", "allkeys-lru")
	now = now.Add(time.Minute)
	check(t, "no limit", s, nil)
	c.do("config", "set", "maxmemory", "500mb")
	now = now.Add(time.Minute)
	if err := s.Check(t.Context()); err == nil || errors.Is(err, broker.ErrLost) || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("Check of a server that evicts: %v", err)
	}
	if s, err := redisstore.New(t.Context(), c.config()); err == nil {
		_ = s.Close()
		t.Errorf("a server that evicts was accepted")
	}
	for _, policy := range []string{"volatile-ttl", "volatile-lru", "allkeys-random"} {
		c.do("config", "set", "maxmemory-policy", policy)
		if s, err := redisstore.New(t.Context(), c.config()); err == nil {
			_ = s.Close()
			t.Errorf("%s was accepted", policy)
		}
	}
}

func TestRefusedConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]redisstore.Config{
		"no address":        {},
		"cluster with DB":   {Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, DB: 1},
		"cluster of master": {Addrs: []string{"127.0.0.1:1"}, Cluster: true, MasterName: "m"},
		"negative replicas": {Addrs: []string{"127.0.0.1:1"}, WaitReplicas: -1},
		"nobody there":      {Addrs: []string{"127.0.0.1:1"}},
	} {
		if s, err := redisstore.New(t.Context(), c); err == nil {
			_ = s.Close()
			t.Errorf("%s was accepted", name)
		}
	}
}

// A busy feed must not need a connection for each reader.
func TestManyFollowers(t *testing.T) {
	t.Parallel()
	c := start(t)
	config := c.config()
	config.PoolSize = 3
	s := connect(t, config)
	got := make(chan error, 100)
	for range cap(got) {
		go func() {
			evs, _, err := s.Follow(t.Context(), "", 10, 20*time.Second)
			if err == nil && len(evs) == 0 {
				err = errors.New("no event")
			}
			got <- err
		}()
	}
	l := openTask(t, s, "tsk_1")
	_, err := s.EndLease(t.Context(), l, time.Now())
	must(t, err)
	for range cap(got) {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

// Half of a close: true, but not in the feed. It is published when it is
// repeated, or by Due.
func TestPublishedLate(t *testing.T) {
	t.Parallel()
	c := start(t)
	s := connect(t, c.config())
	for i, repair := range map[string]func(id string, l broker.LiveLease) error{
		"close": func(id string, l broker.LiveLease) error {
			_, first, err := closeTask(t.Context(), s, id)
			if first {
				err = errors.New("the second close was the first")
			}
			return errors.Join(err, s.PutTask(t.Context(), broker.Live{Task: broker.Task{ID: id, State: broker.TaskOpen}}, time.Now()))
		},
		"put": func(id string, l broker.LiveLease) error {
			return s.PutTask(t.Context(), broker.Live{Task: broker.Task{ID: id, State: broker.TaskOpen}}, time.Now())
		},
		"due": func(id string, l broker.LiveLease) error {
			later := time.Now().Add(time.Minute)
			ids, err := s.Due(t.Context(), later, later.Add(time.Minute), 10)
			if len(ids) > 0 {
				err = fmt.Errorf("due are %v", ids)
			}
			return err
		},
		"end": func(id string, l broker.LiveLease) error {
			first, err := s.EndLease(t.Context(), l, time.Now())
			if first {
				err = errors.New("the second end was the first")
			}
			return err
		},
	} {
		id := "tsk_" + i
		l := openTask(t, s, id)
		c.do("set", "t:feed", "in the way")
		var err error
		if i == "end" {
			_, err = s.EndLease(t.Context(), l, time.Now())
		} else {
			_, _, err = closeTask(t.Context(), s, id)
		}
		if err == nil {
			t.Fatalf("%s: nothing failed", i)
		}
		if alive, err := s.Status(t.Context(), id, l.ID, time.Now()); alive || err != nil {
			t.Errorf("%s: alive is %t, %v", i, alive, err)
		}
		c.do("del", "t:feed")
		for range 2 {
			if err := repair(id, l); err != nil {
				t.Errorf("%s: %v", i, err)
			}
		}
		evs, _, err := s.Follow(t.Context(), "", 10, 0)
		if err != nil || len(evs) != 1 || evs[0].TaskID != id {
			t.Errorf("%s: events %v, %v", i, evs, err)
		}
		_, _, err = closeTask(t.Context(), s, id)
		must(t, err)
		c.do("del", "t:feed")
	}
}

// A server that forgot the scripts is sent them again.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	c := start(t)
	s := connect(t, c.config())
	ctx, now := t.Context(), time.Now()
	l := broker.LiveLease{ID: "lse_1", TaskID: "tsk_1", ExpiresAt: now.Add(time.Minute)}
	for name, call := range map[string]func() error{
		"PutTask": func() error {
			return s.PutTask(ctx, broker.Live{Task: broker.Task{ID: "tsk_1", State: broker.TaskOpen}, Due: now}, now)
		},
		"Due":      func() error { _, err := s.Due(ctx, now, now, 1); return err },
		"EndLease": func() error { _, err := s.EndLease(ctx, l, now); return err },
		"SetState": func() error { _, _, err := closeTask(ctx, s, "tsk_2"); return err },
		"Admit": func() error {
			_, err := s.Admit(ctx, broker.Admission{Claims: []broker.Claim{{Key: "k", Until: now.Add(time.Minute)}}})
			return err
		},
		"Pace": func() error {
			_, _, err := s.Pace(ctx, "k", now, time.Second, time.Second, now.Add(time.Minute))
			return err
		},
		"Mark": func() error { return s.Mark(ctx) },
	} {
		c.do("script", "flush")
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Everything but open tasks, the feed and the canary goes away by itself.
func TestEverythingExpires(t *testing.T) {
	t.Parallel()
	c := start(t)
	s := connect(t, c.config())
	ctx, now := t.Context(), time.Now()
	must(t, s.Mark(ctx))
	open, shut := openTask(t, s, "tsk_1"), openTask(t, s, "tsk_2")
	_, _, err := closeTask(ctx, s, "tsk_2")
	must(t, err)
	for _, l := range []broker.LiveLease{open, shut, {ID: "lse_3", TaskID: "tsk_3", ExpiresAt: now}} {
		_, err = s.EndLease(ctx, l, now)
		must(t, err)
	}
	must(t, s.PutLease(ctx, broker.LiveLease{ID: "lse_4", TaskID: "tsk_1", ExpiresAt: now.Add(time.Minute)}, 0, false))
	_, err = s.Admit(ctx, broker.Admission{Claims: []broker.Claim{{Key: "c", Until: now.Add(time.Minute)}}, Rates: []broker.Rate{{Key: "r", Limit: 1, Per: time.Minute}}})
	must(t, err)
	must(t, s.Put(ctx, "v", "x", now.Add(time.Minute)))
	must(t, s.Put(ctx, "w", "x", now.Add(time.Minute)))
	_, err = s.Take(ctx, "w")
	must(t, err)
	_, _, err = s.Pace(ctx, "p", now, time.Second, time.Second, now.Add(time.Minute))
	must(t, err)
	forever := map[string]bool{"t:{tsk_1}:t": true, "t:due": true, "t:feed": true, "t:canary:{0}": true}
	for key := range strings.FieldsSeq(strings.Trim(c.do("keys", "*"), "[]")) {
		if ttl := c.do("pttl", key); (ttl == "-1") != forever[key] {
			t.Errorf("%s has the TTL %s", key, ttl)
		}
	}
}
