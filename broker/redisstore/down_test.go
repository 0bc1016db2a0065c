package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/redisstore"
)

// unreachable asserts that every call fails, and fails quickly.
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
		"PutLease": func() error { return s.PutLease(ctx, l, broker.LeaseLimits{}, false) },
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
			_, _, err := s.Pace(ctx, "k", now, broker.Pacing{Interval: time.Second, Step: time.Second, Most: time.Minute}, now.Add(time.Minute))
			return err
		},
		"Check": func() error { return s.Check(ctx) },
		"Mark":  func() error { return s.Mark(ctx) },
	} {
		began := time.Now()
		err := call()
		if took := time.Since(began); took > 30*time.Second {
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
	config.Timeout = time.Minute
	patient := connect(t, config)
	must(t, patient.Mark(t.Context()))
	l := openTask(t, patient, "tsk_1")
	config.Timeout = time.Second
	s := connect(t, config)
	c.Signal(syscall.SIGSTOP)
	unreachable(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, call := range map[string]func() error{
		"Status": func() error { _, err := patient.Status(ctx, l.TaskID, l.ID, time.Now()); return err },
		"Take":   func() error { _, err := patient.Take(ctx, "k"); return err },
	} {
		began := time.Now()
		if err := call(); err == nil || time.Since(began) > 30*time.Second {
			t.Errorf("%s outlived its context: %v after %s", name, err, time.Since(began))
		}
	}
	c.Signal(syscall.SIGCONT)
	c.until("it works again", func() bool { return s.Check(t.Context()) == nil })
	// The close took effect, although its answer was lost; a closed task stays closed.
	if alive, err := patient.Status(t.Context(), l.TaskID, l.ID, time.Now()); err != nil {
		t.Errorf("Status: %t, %v", alive, err)
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
