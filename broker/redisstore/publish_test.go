package redisstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// A busy feed needs one connection, not one for each reader.
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

// A close that took effect but is not in the feed is published when it is repeated, or by
// Due.
func TestPublishedLate(t *testing.T) {
	t.Parallel()
	c := start(t)
	s := connect(t, c.config())
	must(t, s.Mark(t.Context()))
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

// A server that lost the scripts gets them again.
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
			_, _, err := s.Pace(ctx, "k", now, broker.Pacing{Interval: time.Second, Step: time.Second, Most: time.Minute}, now.Add(time.Minute))
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

// Every key expires except open tasks, the feed and the loss marker.
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
	must(t, s.PutLease(ctx, broker.LiveLease{ID: "lse_4", TaskID: "tsk_1", ExpiresAt: now.Add(time.Minute)}, broker.LeaseLimits{}, false))
	_, err = s.Admit(ctx, broker.Admission{Claims: []broker.Claim{{Key: "c", Until: now.Add(time.Minute)}}, Rates: []broker.Rate{{Key: "r", Limit: 1, Per: time.Minute}}})
	must(t, err)
	must(t, s.Put(ctx, "v", "x", now.Add(time.Minute)))
	must(t, s.Put(ctx, "w", "x", now.Add(time.Minute)))
	_, err = s.Take(ctx, "w")
	must(t, err)
	_, _, err = s.Pace(ctx, "p", now, broker.Pacing{Interval: time.Second, Step: time.Second, Most: time.Minute}, now.Add(time.Minute))
	must(t, err)
	forever := map[string]bool{"t:{tsk_1}:t": true, "t:due": true, "t:feed": true, "t:marker:{0}": true}
	for key := range strings.FieldsSeq(strings.Trim(c.do("keys", "*"), "[]")) {
		if ttl := c.do("pttl", key); (ttl == "-1") != forever[key] {
			t.Errorf("%s has the TTL %s", key, ttl)
		}
	}
}

// Later mints remove leases that expired long ago. Recently expired leases do not count
// against the limit.
func TestExpiredLeasesArePruned(t *testing.T) {
	t.Parallel()
	c := start(t)
	config := c.config()
	now := time.Now()
	config.Now = func() time.Time { return now }
	s := connect(t, config)
	ctx := t.Context()
	must(t, s.PutTask(ctx, broker.Live{Task: broker.Task{ID: "tsk_1", State: broker.TaskOpen}}, now.Add(24*time.Hour)))
	put := func(prefix string, n int) {
		for i := range n {
			must(t, s.PutLease(ctx, broker.LiveLease{ID: prefix + strconv.Itoa(i), TaskID: "tsk_1", ExpiresAt: now.Add(time.Minute)}, broker.LeaseLimits{Task: n}, false))
		}
	}
	put("old", 100)
	now = now.Add(2 * time.Minute)
	put("new", 100)
	if n := c.do("zcard", "t:{tsk_1}:l"); n != "200" {
		t.Errorf("%s leases are kept, want 200: those of the last minutes still count as expired", n)
	}
	now = now.Add(time.Hour)
	put("last", 100)
	if n, _ := strconv.Atoi(c.do("zcard", "t:{tsk_1}:l")); n > 108 {
		t.Errorf("%d leases are kept, want about the 100 that live", n)
	}
}
