package storetest

import (
	"time"

	"ebb/broker"
)

func gateTake(t *ledgerTest) {
	take := func(l broker.Ledger, key, want string, wantErr error) {
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

func gateTakeRace(t *ledgerTest) {
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

func gatePace(t *ledgerTest) {
	const s = time.Second
	until := t.in(10 * time.Minute)
	poll := func(after, want time.Duration, wantOK bool) {
		t.Helper()
		t.clock.move(after)
		got, ok, err := t.l.Pace(t.ctx, "poll", t.now(), 5*s, 5*s, until)
		t.want("Pace", err, nil)
		if got != want || ok != wantOK {
			t.Errorf("got %s, %t, want %s, %t", got, ok, want, wantOK)
		}
	}
	poll(0, 5*s, true)
	poll(5*s, 5*s, true)
	poll(5*s-time.Millisecond, 10*s, false)
	poll(9*s, 15*s, false) // measured from the call before, also when that came too early
	poll(15*s, 15*s, true)
	poll(14*s, 20*s, false)
	poll(time.Minute, 20*s, true)
	got, ok, err := t.second().Pace(t.ctx, "poll", t.now(), 5*s, 5*s, until)
	if err != nil || ok || got != 25*s {
		t.Errorf("a second client got %s, %t, %v", got, ok, err)
	}
	got, ok, err = t.l.Pace(t.ctx, "other", t.now(), 5*s, 5*s, until)
	if err != nil || !ok || got != 5*s {
		t.Errorf("another key got %s, %t, %v", got, ok, err)
	}
	poll(-time.Minute, 30*s, false) // a clock set back is no excuse
	poll(30*s, 30*s, true)
	poll(time.Hour, 5*s, true) // forgotten
	wins := t.race(16, func(int) (bool, error) {
		_, ok, err := t.l.Pace(t.ctx, "race", t.now(), 5*s, s, t.in(time.Minute))
		return ok, err
	})
	if wins != 1 {
		t.Errorf("%d of 16 polls at once were in time", wins)
	}
}
