package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func (t *liveStoreTest) admit(call string, a broker.Admission, want error) broker.Live {
	t.Helper()
	got, err := t.l.Admit(t.ctx, a)
	t.want(call, err, want)
	if want != nil && text(got) != text(broker.Live{}) {
		t.Errorf("%s: a failed Admit returned a task", call)
	}
	return got
}

func (t *liveStoreTest) claim(key, value string, ttl time.Duration, again bool, want error) {
	t.Helper()
	t.admit("claim "+key, broker.Admission{Claims: []broker.Claim{{Key: key, Value: value, Until: t.in(ttl), Again: again}}}, want)
}

func gateAdmit(t *liveStoreTest) {
	id := t.task(1)
	t.same("no task", t.admit("nothing", broker.Admission{}, nil), broker.Live{})
	got := t.admit("all", broker.Admission{
		TaskID: id,
		Claims: []broker.Claim{{Key: "dpop:1", Value: "1", Until: t.in(time.Minute)}, {Key: "ev:1", Value: "k", Until: t.in(time.Minute), Again: true}},
		Rates:  []broker.Rate{{Key: "task:1", Limit: 2, Per: time.Minute}, {Key: "owner:1", Limit: 9, Per: time.Minute}},
	}, nil)
	t.same("task", got, t.live(id))
	// A paused or closed task is returned: the caller reports why it refuses.
	_, _, err := t.l.SetState(t.ctx, id, broker.TaskPaused, t.now(), t.keep())
	t.want("SetState", err, nil)
	if got := t.read(id).State; got != broker.TaskPaused {
		t.Errorf("state is %s", got)
	}
	t.close(id)
	if got := t.read(id).State; got != broker.TaskClosed {
		t.Errorf("state is %s", got)
	}
}

func gateClaims(t *liveStoreTest) {
	t.claim("a", "1", time.Minute, false, nil)
	t.claim("a", "1", time.Minute, false, broker.ErrClaimed)
	t.claim("a", "2", time.Minute, false, broker.ErrClaimed)
	t.claim("b", "1", time.Minute, false, nil)
	t.claim("ev", "k1", time.Minute, true, nil)
	t.claim("ev", "k1", time.Minute, true, nil)
	t.claim("ev", "k2", time.Minute, true, broker.ErrClaimed)
	t.claim("ev", "k1", time.Minute, false, broker.ErrClaimed)
	t.claim("ev", "", time.Minute, true, broker.ErrClaimed)
	t.claim("ev", "k1", time.Minute, true, nil)
	odd := strings.Repeat("\x00|:\xff{}", 18)
	t.claim(odd, odd, time.Minute, true, nil)
	t.claim(odd, odd, time.Minute, true, nil)
	t.claim(odd, odd[1:], time.Minute, true, broker.ErrClaimed)
	long := broker.Claim{Key: strings.Repeat("k", 128), Value: strings.Repeat("v", 512), Until: t.in(time.Minute)}
	t.admit("the longest claim", broker.Admission{Claims: []broker.Claim{long}}, nil)
	_, err := t.second().Admit(t.ctx, broker.Admission{Claims: []broker.Claim{long}})
	t.want("claim by a second client", err, broker.ErrClaimed)

	// A claim that has already ended is refused.
	t.claim("past", "1", 0, false, broker.ErrClaimed)
	t.claim("past", "1", -time.Second, true, broker.ErrClaimed)
	t.claim("past", "1", time.Minute, false, nil)

	t.clock.move(time.Minute - time.Millisecond)
	t.claim("a", "1", time.Minute, false, broker.ErrClaimed)
	t.clock.move(time.Millisecond)
	t.claim("a", "2", time.Minute, false, nil)
	t.claim("a", "2", time.Minute, false, broker.ErrClaimed)
	t.claim("ev", "k2", time.Minute, true, nil)
	t.claim("ev", "k1", time.Minute, true, broker.ErrClaimed)
	t.clock.move(time.Hour)
	t.claim("a", "3", time.Minute, false, nil)
}

func gateClaimRace(t *liveStoreTest) {
	other := t.second()
	for round := range 4 {
		wins := t.race(16, func(i int) (bool, error) {
			l := t.l
			if i%2 == 1 {
				l = other
			}
			_, err := l.Admit(t.ctx, broker.Admission{Claims: []broker.Claim{{Key: "one", Value: fmt.Sprint(i), Until: t.in(time.Minute), Again: true}}})
			return won(err, broker.ErrClaimed)
		})
		if wins != 1 {
			t.Errorf("round %d: %d claims won", round, wins)
		}
		t.clock.move(time.Minute) // expired: the same race over the remaining entries
	}
}

func gateClaimClockBack(t *liveStoreTest) {
	c := broker.Claim{Key: "dpop:1", Value: "1", Until: t.in(time.Minute)}
	t.admit("claim", broker.Admission{Claims: []broker.Claim{c}}, nil)
	t.clock.move(time.Hour)
	for i := range 100 {
		t.claim(fmt.Sprint("later", i), "1", time.Minute, false, nil)
	}
	t.clock.move(-time.Hour)
	t.admit("claim after the clock was set back", broker.Admission{Claims: []broker.Claim{c}}, broker.ErrClaimed)
}

func gateOrder(t *liveStoreTest) {
	id := t.task(1)
	claim := []broker.Claim{{Key: "c", Value: "1", Until: t.in(time.Minute)}}
	rate := []broker.Rate{{Key: "r", Limit: 1, Per: time.Minute}}
	none := t.id("tsk", 9)
	t.admit("unknown task", broker.Admission{TaskID: none, Claims: claim, Rates: rate}, broker.ErrNotFound)
	t.admit("everything wrong", broker.Admission{TaskID: none, Claims: claim, Rates: rate}, broker.ErrClaimed)
	t.admit("rate and task wrong", broker.Admission{TaskID: none, Rates: rate}, &broker.RateError{})
	t.admit("claim wrong", broker.Admission{TaskID: id, Claims: claim}, broker.ErrClaimed)
	t.admit("rate wrong", broker.Admission{TaskID: id, Rates: rate}, &broker.RateError{})
	t.admit("second claim wrong", broker.Admission{TaskID: id, Claims: []broker.Claim{{Key: "d", Until: t.in(time.Minute)}, claim[0]}}, broker.ErrClaimed)
	t.admit("nothing wrong", broker.Admission{TaskID: id}, nil)
}

func gateBadInput(t *liveStoreTest) {
	ok := t.in(time.Minute)
	for name, a := range map[string]broker.Admission{
		"claim without key": {Claims: []broker.Claim{{Value: "x", Until: ok}}},
		"long key":          {Claims: []broker.Claim{{Key: strings.Repeat("k", 129), Until: ok}}},
		"long value":        {Claims: []broker.Claim{{Key: "k", Value: strings.Repeat("v", 513), Until: ok}}},
		"rate without key":  {Rates: []broker.Rate{{Limit: 1, Per: time.Second}}},
		"rate without per":  {Rates: []broker.Rate{{Key: "r", Limit: 1}}},
	} {
		t.admit(name, a, errAny)
	}
	t.claim("k", "", time.Minute, false, nil) // a refused admission made no claim
}

func (t *liveStoreTest) rate(limit int, per time.Duration) error {
	_, err := t.l.Admit(t.ctx, broker.Admission{Rates: []broker.Rate{{Key: "mint", Limit: limit, Per: per}}})
	return err
}

func gateRates(t *liveStoreTest) {
	for _, c := range []struct {
		limit int
		per   time.Duration
	}{{1, time.Second}, {3, time.Minute}, {7, time.Minute}, {60, time.Minute}, {1500, time.Second}} {
		for round := range 2 {
			for i := range c.limit {
				t.want(fmt.Sprintf("event %d of %d, round %d", i, c.limit, round), t.rate(c.limit, c.per), nil)
			}
			err := t.rate(c.limit, c.per)
			t.want("one too many", err, &broker.RateError{})
			r, _ := errors.AsType[*broker.RateError](err)
			if r == nil || r.Key != "mint" || r.RetryAfter <= 0 || r.RetryAfter > c.per {
				t.Fatalf("got %+v", r)
			}
			if r.RetryAfter > 2*time.Millisecond {
				t.clock.move(r.RetryAfter - 2*time.Millisecond)
				t.want("before RetryAfter", t.rate(c.limit, c.per), &broker.RateError{})
				t.clock.move(2 * time.Millisecond)
			} else {
				t.clock.move(r.RetryAfter)
			}
			t.want("after RetryAfter", t.rate(c.limit, c.per), nil)
			t.clock.move(2 * c.per)
		}
		t.clock.move(time.Hour)
	}
	t.want("a limit of 0", t.rate(0, time.Minute), &broker.RateError{})
	t.want("a limit below 0", t.rate(-1, time.Minute), &broker.RateError{})
	_, err := t.l.Admit(t.ctx, broker.Admission{Rates: []broker.Rate{{Key: "other", Limit: 1, Per: time.Minute}}})
	t.want("another key", err, nil)
}

func gateRateRace(t *liveStoreTest) {
	other := t.second()
	wins := t.race(16, func(i int) (bool, error) {
		l := t.l
		if i%2 == 1 {
			l = other
		}
		_, err := l.Admit(t.ctx, broker.Admission{Rates: []broker.Rate{{Key: "mint", Limit: 5, Per: time.Minute}}})
		if class(err) == "rate" {
			return false, nil
		}
		return err == nil, err
	})
	if wins != 5 {
		t.Errorf("%d events under a rate of 5", wins)
	}
}

// A clock that is set back must not block a task for the length of the jump.
func gateRateClockBack(t *liveStoreTest) {
	for range 3 {
		t.want("event", t.rate(3, time.Minute), nil)
	}
	t.clock.move(-100 * time.Hour)
	t.want("after the clock was set back", t.rate(3, time.Minute), &broker.RateError{})
	t.clock.move(time.Minute)
	t.want("a minute later", t.rate(3, time.Minute), nil)
}

func gateTake(t *liveStoreTest) {
	take := func(l broker.LiveStore, key, want string, wantErr error) {
		t.Helper()
		got, err := l.Take(t.ctx, key)
		t.want("Take "+key, err, wantErr)
		if got != want {
			t.Errorf("took %q, want %q", got, want)
		}
	}
	put := func(key, value string, ttl time.Duration) {
		t.Helper()
		t.want("Put "+key, t.l.Put(t.ctx, key, value, t.in(ttl)), nil)
	}
	take(t.l, "tkt:1", "", broker.ErrNotFound)
	put("tkt:1", "tsk_1", time.Minute)
	take(t.second(), "tkt:1", "tsk_1", nil)
	take(t.l, "tkt:1", "", broker.ErrNotFound)
	take(t.second(), "tkt:1", "", broker.ErrNotFound)
	put("tkt:1", "again", time.Minute)
	put("tkt:1", "replaced|: \x00\xff", time.Minute)
	take(t.l, "tkt:1", "replaced|: \x00\xff", nil)
	put("tkt:2", "", time.Minute)
	take(t.l, "tkt:2", "", nil)
	put("tkt:3", "x", time.Minute)
	t.clock.move(time.Minute - time.Millisecond)
	put("tkt:4", "x", time.Second)
	put("tkt:5", "x", 0)
	t.clock.move(time.Millisecond)
	take(t.l, "tkt:3", "", broker.ErrNotFound)
	take(t.l, "tkt:5", "", broker.ErrNotFound)
	take(t.l, "tkt:4", "x", nil)
}

func gateTakeRace(t *liveStoreTest) {
	other := t.second()
	for range 10 {
		t.want("Put", t.l.Put(t.ctx, "tkt", "x", t.in(time.Minute)), nil)
		wins := t.race(16, func(i int) (bool, error) {
			l := t.l
			if i%2 == 1 {
				l = other
			}
			_, err := l.Take(t.ctx, "tkt")
			return won(err, broker.ErrNotFound)
		})
		if wins != 1 {
			t.Fatalf("%d takers won", wins)
		}
	}
}

func gatePace(t *liveStoreTest) {
	const s = time.Second
	until := t.in(10 * time.Minute)
	p := broker.Pacing{Interval: 5 * s, Step: 5 * s, Most: 18 * s}
	poll := func(after, want time.Duration, wantOK bool) {
		t.Helper()
		t.clock.move(after)
		got, ok, err := t.l.Pace(t.ctx, "poll", t.now(), p, until)
		t.want("Pace", err, nil)
		if got != want || ok != wantOK {
			t.Errorf("got %s, %t, want %s, %t", got, ok, want, wantOK)
		}
	}
	poll(0, 5*s, true)
	poll(5*s, 5*s, true)
	poll(5*s-time.Millisecond, 10*s, false)
	poll(0, 10*s, false)   // at the same time: counted once
	poll(9*s, 10*s, false) // measured from the previous call, also when that came too early
	poll(10*s, 10*s, true)
	poll(9*s, 15*s, false)
	poll(15*s, 15*s, true)
	poll(14*s, 18*s, false) // the longest interval
	poll(time.Minute, 18*s, true)
	got, ok, err := t.second().Pace(t.ctx, "poll", t.now(), p, until)
	if err != nil || ok || got != 18*s {
		t.Errorf("a second client got %s, %t, %v", got, ok, err)
	}
	got, ok, err = t.l.Pace(t.ctx, "other", t.now(), p, until)
	if err != nil || !ok || got != 5*s {
		t.Errorf("another key got %s, %t, %v", got, ok, err)
	}
	poll(-time.Minute, 18*s, false) // a clock that is set back changes nothing
	poll(18*s, 18*s, true)
	poll(time.Hour, 5*s, true) // expired
	wins := t.race(16, func(int) (bool, error) {
		_, ok, err := t.l.Pace(t.ctx, "race", t.now(), p, t.in(time.Minute))
		return ok, err
	})
	if wins != 1 {
		t.Errorf("%d of 16 polls at once were in time", wins)
	}
}
