package storetest

import (
	"time"

	"github.com/ebb-broker/ebb/broker"
)

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
