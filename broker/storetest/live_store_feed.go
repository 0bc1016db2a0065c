package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func (t *liveStoreTest) follow(cursor string, n int) ([]broker.Event, string) {
	t.Helper()
	evs, next, err := t.l.Follow(t.ctx, cursor, n, 0)
	t.want("Follow", err, nil)
	return evs, next
}

func feedEvents(t *liveStoreTest) {
	evs, cursor := t.follow("", 10)
	t.same("a new live store", evs, []broker.Event(nil))
	id := t.task(1)
	l := t.lease(id, 1, time.Minute)
	t.putLease(l)
	at := t.now()
	for range 2 { // an end is published once
		_, err := t.l.EndLease(t.ctx, l, at.Add(999))
		t.want("EndLease", err, nil)
	}
	_, _, err := t.l.SetState(t.ctx, id, broker.TaskPaused, at, t.keep())
	t.want("SetState", err, nil)
	keep := t.keep()
	for range 2 {
		_, _, err := t.l.SetState(t.ctx, id, broker.TaskClosed, at, keep)
		t.want("SetState", err, nil)
	}
	_, _, err = t.l.SetState(t.ctx, t.id("tsk", 2), broker.TaskClosed, at, keep)
	t.want("SetState", err, nil)
	shut := t.live(t.id("tsk", 3))
	shut.State, shut.ClosedAt = broker.TaskClosed, at
	for range 2 {
		t.want("PutTask", t.l.PutTask(t.ctx, shut, keep), nil)
	}
	want := []broker.Event{
		{TaskID: id, LeaseID: l.ID, At: at, Until: l.ExpiresAt},
		{TaskID: id, LeaseID: broker.PauseMark, At: at, Until: at.Add(broker.PauseKept)},
		{TaskID: id, At: at, Until: keep},
		{TaskID: t.id("tsk", 2), At: at, Until: keep},
		{TaskID: shut.ID, At: at, Until: keep},
	}
	evs, _ = t.follow(cursor, 10)
	t.same("events", evs, want)
	evs, _, err = t.second().Follow(t.ctx, "", 10, 0)
	t.want("Follow by a second client", err, nil)
	t.same("events of a second client", evs, want)
}

func (t *liveStoreTest) publish(n int) {
	t.Helper()
	_, err := t.l.EndLease(t.ctx, t.lease(t.id("tsk", 1), n, time.Hour), t.now())
	t.want("EndLease", err, nil)
}

func feedCursor(t *liveStoreTest) {
	for i := range 25 {
		t.publish(i)
	}
	cursor, n := "", 0
	for {
		evs, next := t.follow(cursor, 10)
		if len(evs) == 0 {
			if next != cursor {
				t.Errorf("the cursor moved from %q to %q without events", cursor, next)
			}
			break
		}
		for _, e := range evs {
			if e.LeaseID != t.id("lse", n) {
				t.Errorf("event %d is %s", n, e.LeaseID)
			}
			n++
		}
		cursor = next
	}
	if n != 25 {
		t.Errorf("read %d events, want 25", n)
	}
	t.publish(25)
	other := t.second() // a cursor is valid at every client
	evs, _, err := other.Follow(t.ctx, cursor, 10, 0)
	t.want("Follow", err, nil)
	if len(evs) != 1 || evs[0].LeaseID != t.id("lse", 25) {
		t.Errorf("resumed at %v", evs)
	}
	for _, max := range []int{0, -1} {
		if evs, _ := t.follow("", max); len(evs) != 1 {
			t.Errorf("max %d returned %d events", max, len(evs))
		}
	}
}

// Receiving an event twice is harmless, missing one is not: a cursor that is not from
// this LiveStore starts at the oldest event.
func feedStrangeCursor(t *liveStoreTest) {
	for i := range 3 {
		t.publish(i)
	}
	for _, cursor := range []string{"x", "0", "-1", "999999999999999-0", "0-0", "1.2.3", "nobody.2", "18446744073709551615-18446744073709551615", "99999999999999999999999-1", "$", ">", "+", "é\x00\r\n"} {
		if evs, _ := t.follow(cursor, 10); len(evs) != 3 {
			t.Errorf("cursor %q: %d events, want all 3", cursor, len(evs))
		}
	}
}

func feedWakes(t *liveStoreTest) {
	other := t.second()
	_, cursor := t.follow("", 10)
	type answer struct {
		evs []broker.Event
		err error
	}
	for i := range 3 {
		got := make(chan answer)
		for n := range 4 {
			l := t.l
			if n%2 == 1 {
				l = other
			}
			go func() {
				evs, _, err := l.Follow(t.ctx, cursor, 10, time.Minute)
				got <- answer{evs, err}
			}()
		}
		began := time.Now()
		t.publish(i)
		for range 4 {
			a := <-got
			if a.err != nil || len(a.evs) == 0 {
				t.Errorf("waiter got %v, %v", a.evs, a.err)
			}
		}
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("waiters woke after %s", took)
		}
		_, cursor = t.follow(cursor, 10)
	}
	evs, next, err := t.l.Follow(t.ctx, cursor, 10, 20*time.Millisecond)
	if err != nil || len(evs) != 0 || next != cursor {
		t.Errorf("a wait without events gave %v, %q, %v", evs, next, err)
	}
}

func feedContext(t *liveStoreTest) {
	ctx, cancel := context.WithCancel(t.ctx)
	got := make(chan error)
	go func() {
		_, _, err := t.l.Follow(ctx, "", 10, time.Minute)
		got <- err
	}()
	cancel()
	select {
	case err := <-got:
		t.want("Follow", err, errAny)
	case <-time.After(40 * time.Second):
		t.Errorf("Follow outlived its context")
	}
}

func feedKeeps(t *liveStoreTest) {
	t.publish(0) // relevant for an hour
	for i := range 200 {
		_, err := t.l.EndLease(t.ctx, t.lease(t.id("tsk", 1), 1000+i, time.Second), t.now())
		t.want("EndLease", err, nil)
	}
	t.clock.move(time.Hour - time.Millisecond)
	for i := range 100 {
		_, err := t.l.EndLease(t.ctx, t.lease(t.id("tsk", 1), 2000+i, time.Second), t.now())
		t.want("EndLease", err, nil)
	}
	evs, _ := t.follow("", 1)
	t.same("oldest event", fmt.Sprint(evs[0].LeaseID), t.id("lse", 0))
}

func guardMark(t *liveStoreTest) {
	t.want("Check of a live store that was never marked", t.l.Check(t.ctx), broker.ErrLost)
	t.same("the name of its memory", t.l.Memory(), "")
	t.want("Mark", t.l.Mark(t.ctx), nil)
	t.want("Check", t.l.Check(t.ctx), nil)
	id := t.task(1)
	t.putLease(t.lease(id, 1, time.Minute))
	_, err := t.l.EndLease(t.ctx, t.lease(id, 1, time.Minute), t.now())
	t.want("EndLease", err, nil)
	t.close(id)
	other := t.second()
	for range 3 {
		t.want("Check", t.l.Check(t.ctx), nil)
		t.want("Check by a second client", other.Check(t.ctx), nil)
		t.clock.move(time.Minute)
	}
	name := t.l.Memory()
	if len(name) < 22 {
		t.Errorf("the name of a memory is %q, want 128 bits at least", name)
	}
	t.same("the name of the memory at a second client", other.Memory(), name)
	before := []int64{t.l.Losses(), other.Losses()}
	t.want("Mark again", other.Mark(t.ctx), nil)
	t.want("Check", t.l.Check(t.ctx), nil)
	t.want("Check by a second client", other.Check(t.ctx), nil)
	t.same("losses of a live store that lost nothing", []int64{t.l.Losses(), other.Losses()}, before)
	t.same("the names of its memory", []string{t.l.Memory(), other.Memory()}, []string{name, name})
	t.race(16, func(i int) (bool, error) {
		l := t.l
		if i%2 == 1 {
			l = other
		}
		if i%3 == 0 {
			_, _, err := l.SetState(t.ctx, t.id("tsk", i), broker.TaskClosed, t.now(), t.keep())
			return true, err
		}
		return true, l.Check(t.ctx)
	})
}

func guardContext(t *liveStoreTest) {
	id := t.task(1)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	for name, err := range t.calls(ctx, id) {
		t.want(name+" with an ended context", err, errAny)
	}
}

func guardClose(t *liveStoreTest) {
	id := t.task(1)
	l := t.second()
	waiting := make(chan error)
	go func() {
		_, _, err := t.l.Follow(t.ctx, "", 10, time.Minute)
		waiting <- err
	}()
	t.want("Close", t.l.Close(), nil)
	select {
	case err := <-waiting:
		t.want("Follow", err, errAny)
	case <-time.After(2 * time.Minute):
		t.Errorf("Follow outlived the live store")
	}
	t.want("Close again", t.l.Close(), nil)
	for name, err := range t.calls(t.ctx, id) {
		t.want(name+" after Close", err, errAny)
	}
	_ = l.Close()
}

// calls makes every call once.
func (t *liveStoreTest) calls(ctx context.Context, id string) map[string]error {
	out := map[string]error{}
	lease := t.lease(id, 1, time.Minute)
	out["PutTask"] = t.l.PutTask(ctx, t.live(id), t.keep())
	_, _, out["SetState"] = t.l.SetState(ctx, id, broker.TaskClosed, t.now(), t.keep())
	_, out["Touch"] = t.l.Touch(ctx, id, broker.Touch{Denials: 1, Due: t.now()})
	_, out["Due"] = t.l.Due(ctx, t.now(), t.now(), 1)
	out["PutLease"] = t.l.PutLease(ctx, lease, broker.LeaseLimits{}, false)
	_, out["EndLease"] = t.l.EndLease(ctx, lease, t.now())
	_, out["Status"] = t.l.Status(ctx, id, lease.ID, t.now())
	_, _, out["Follow"] = t.l.Follow(ctx, "", 1, 0)
	_, out["Admit"] = t.l.Admit(ctx, broker.Admission{TaskID: id, Claims: []broker.Claim{{Key: "k", Until: t.in(time.Minute)}}})
	out["Put"] = t.l.Put(ctx, "k", "v", t.in(time.Minute))
	_, out["Take"] = t.l.Take(ctx, "k")
	_, _, out["Pace"] = t.l.Pace(ctx, "k", t.now(), broker.Pacing{Interval: time.Second, Step: time.Second, Most: time.Minute}, t.in(time.Minute))
	out["Check"] = t.l.Check(ctx)
	out["Mark"] = t.l.Mark(ctx)
	return out
}
