package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

func leaseLife(t *liveStoreTest) {
	id := t.task(1)
	l := t.lease(id, 1, time.Minute)
	t.alive(false, l)
	t.putLease(l)
	t.putLease(l)
	t.alive(true, l)
	got, err := t.second().Status(t.ctx, l.TaskID, l.ID, t.now())
	if err != nil || !got {
		t.Errorf("a second client says %t, %v", got, err)
	}
	for name, other := range map[string]broker.LiveLease{
		"other lease":  {ID: t.id("lse", 2), TaskID: id},
		"other task":   {ID: l.ID, TaskID: t.task(2)},
		"unknown task": {ID: l.ID, TaskID: t.id("tsk", 9)},
		"no lease":     {TaskID: id},
		"no task":      {ID: l.ID},
		"nothing":      {},
	} {
		if got, err := t.l.Status(t.ctx, other.TaskID, other.ID, t.now()); got || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	_, _, err = t.l.SetState(t.ctx, id, broker.TaskPaused, t.now(), t.keep())
	t.want("SetState", err, nil)
	t.alive(true, l) // live tokens of a paused task stay valid
	t.clock.move(time.Minute - time.Millisecond)
	t.alive(true, l)
	t.clock.move(time.Millisecond)
	t.alive(false, l)
	if got, _ := t.l.Status(t.ctx, id, l.ID, l.ExpiresAt.Add(-time.Second)); !got {
		t.Errorf("Status does not use the time it is given")
	}
}

func leasePutRefuses(t *liveStoreTest) {
	id := t.id("tsk", 1)
	l := t.lease(id, 1, time.Minute)
	for _, refill := range []bool{false, true} {
		t.want("unknown task", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, refill), broker.ErrNotFound)
	}
	t.put(t.live(id))
	_, _, err := t.l.SetState(t.ctx, id, broker.TaskPaused, t.now(), t.keep())
	t.want("SetState", err, nil)
	t.want("paused task", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, false), broker.ErrTaskPaused)
	t.alive(false, l)
	t.want("refill of a paused task", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), nil)
	t.alive(true, l)
	_, _, err = t.l.SetState(t.ctx, id, broker.TaskOpen, t.now(), t.keep())
	t.want("SetState", err, nil)
	t.putLease(t.lease(id, 2, time.Minute))
	t.close(id)
	for _, refill := range []bool{false, true} {
		t.want("closed task", t.l.PutLease(t.ctx, t.lease(id, 3, time.Minute), broker.LeaseLimits{}, refill), broker.ErrTaskClosed)
		t.want("known lease of a closed task", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, refill), broker.ErrTaskClosed)
	}
	t.alive(false, l)
}

func leaseEnd(t *liveStoreTest) {
	id := t.task(1)
	a, b := t.lease(id, 1, time.Minute), t.lease(id, 2, time.Minute)
	t.putLease(a)
	t.putLease(b)
	for i, want := range []bool{true, false, false} {
		first, err := t.l.EndLease(t.ctx, a, t.now())
		t.want("EndLease", err, nil)
		if first != want {
			t.Errorf("end %d: first %t", i, first)
		}
		t.alive(false, a)
		t.alive(true, b)
	}
	for _, refill := range []bool{false, true} {
		t.want("PutLease after its end", t.l.PutLease(t.ctx, a, broker.LeaseLimits{}, refill), broker.ErrDone)
		t.alive(false, a)
	}
}

// A refill that read the database before the revocation must not make the lease live
// again, whether or not the LiveStore knew the lease when it was revoked.
func leaseEndFinal(t *liveStoreTest) {
	id := t.id("tsk", 1)
	l := t.lease(id, 1, time.Hour)
	first, err := t.l.EndLease(t.ctx, l, t.now())
	t.want("EndLease of an unknown task", err, nil)
	if !first {
		t.Errorf("first is false")
	}
	_, err = t.l.Admit(t.ctx, broker.Admission{TaskID: id})
	t.want("Admit: ending a lease makes no task known", err, broker.ErrNotFound)
	t.want("PutLease", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), broker.ErrNotFound)
	t.put(t.live(id))
	t.want("PutLease", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), broker.ErrDone)
	t.alive(false, l)
	t.clock.move(time.Hour - time.Millisecond)
	for i := range 100 {
		t.putLease(t.lease(id, 1000+i, time.Minute))
	}
	t.want("PutLease just before its expiry", t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), broker.ErrDone)

	// In a closed task a lease is still revoked once.
	m := t.lease(id, 2, time.Hour)
	t.putLease(m)
	t.close(id)
	for _, want := range []bool{true, false} {
		first, err := t.l.EndLease(t.ctx, m, t.now())
		t.want("EndLease in a closed task", err, nil)
		if first != want {
			t.Errorf("first is %t, want %t", first, want)
		}
	}
}

func leaseCap(t *liveStoreTest) {
	id := t.task(1)
	for i := range 3 {
		t.want("PutLease", t.l.PutLease(t.ctx, t.lease(id, i, time.Duration(i+1)*time.Minute), broker.LeaseLimits{Task: 3}, false), nil)
	}
	next := t.lease(id, 9, time.Hour)
	t.want("PutLease over the cap", t.l.PutLease(t.ctx, next, broker.LeaseLimits{Task: 3}, false), broker.ErrCap)
	t.want("PutLease over the cap in a refill", t.l.PutLease(t.ctx, next, broker.LeaseLimits{Task: 3}, true), broker.ErrCap)
	t.alive(false, next)
	t.want("PutLease of a known lease at the cap", t.l.PutLease(t.ctx, t.lease(id, 0, time.Minute), broker.LeaseLimits{Task: 3}, false), nil)
	t.want("another task", t.l.PutLease(t.ctx, t.lease(t.task(2), 9, time.Minute), broker.LeaseLimits{Task: 1}, false), nil)
	t.want("no limit", t.l.PutLease(t.ctx, t.lease(id, 8, 90*time.Second), broker.LeaseLimits{}, false), nil)
	// The first expires, another is revoked: two places, of which one is over the limit.
	t.clock.move(time.Minute)
	t.want("PutLease over the cap", t.l.PutLease(t.ctx, next, broker.LeaseLimits{Task: 3}, false), broker.ErrCap)
	_, err := t.l.EndLease(t.ctx, t.lease(id, 1, time.Minute), t.now())
	t.want("EndLease", err, nil)
	t.want("PutLease", t.l.PutLease(t.ctx, next, broker.LeaseLimits{Task: 3}, false), nil)
	t.want("PutLease over the cap", t.l.PutLease(t.ctx, t.lease(id, 10, time.Minute), broker.LeaseLimits{Task: 3}, false), broker.ErrCap)
}

func leaseCounts(t *liveStoreTest) {
	id := t.task(1)
	for i := range 6 {
		t.putLease(t.lease(id, i, time.Duration(i+1)*10*time.Second))
	}
	count := func(live, expired int) {
		t.Helper()
		got, _, err := t.l.SetState(t.ctx, id, broker.TaskOpen, t.now(), t.keep())
		t.want("SetState", err, nil)
		if want := (broker.Counts{Live: live, Expired: expired}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	count(6, 0)
	t.clock.move(10*time.Second - time.Millisecond)
	count(6, 0)
	t.clock.move(time.Millisecond)
	count(5, 1)
	t.clock.move(20 * time.Second)
	count(3, 3)
	for _, i := range []int{0, 5} { // an expired one and a live one
		_, err := t.l.EndLease(t.ctx, t.lease(id, i, time.Minute), t.now())
		t.want("EndLease", err, nil)
	}
	count(2, 2)
}

func leaseClockBack(t *liveStoreTest) {
	id, shut := t.task(1), t.task(2)
	ended, inShut := t.lease(id, 1, 5*time.Minute), t.lease(shut, 2, 5*time.Minute)
	t.putLease(ended)
	t.putLease(inShut)
	_, err := t.l.EndLease(t.ctx, ended, t.now())
	t.want("EndLease", err, nil)
	t.close(shut)
	late := t.lease(id, 3, time.Hour)
	t.putLease(late)
	t.clock.move(10 * time.Minute)
	for i := range 100 {
		t.putLease(t.lease(id, 100+i, time.Second))
	}
	t.clock.move(-8 * time.Minute)
	for range 3 {
		t.want("PutLease after its end", t.l.PutLease(t.ctx, ended, broker.LeaseLimits{}, true), broker.ErrDone)
		t.want("PutLease in a closed task", t.l.PutLease(t.ctx, inShut, broker.LeaseLimits{}, true), broker.ErrTaskClosed)
		t.alive(false, ended)
		t.alive(false, inShut)
		t.alive(true, late)
		t.clock.move(-10 * time.Minute) // also to before the opening of the task
	}
}

func leaseMany(t *liveStoreTest) {
	id := t.task(1)
	const n = 2000
	t.race(8, func(i int) (bool, error) {
		for j := i; j < n; j += 8 {
			if err := t.l.PutLease(t.ctx, t.lease(id, j, time.Duration(j%7+1)*time.Minute), broker.LeaseLimits{}, false); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	for j := 0; j < n; j += 97 {
		t.alive(true, t.lease(id, j, time.Minute))
	}
	if got := t.close(id); got.Live != n {
		t.Errorf("%d live, want %d", got.Live, n)
	}
	for j := 0; j < n; j += 97 {
		t.alive(false, t.lease(id, j, time.Minute))
	}
}

func leaseEndRace(t *liveStoreTest) {
	id := t.task(1)
	l := t.lease(id, 1, time.Minute)
	t.putLease(l)
	other := t.second()
	wins := t.race(16, func(i int) (bool, error) {
		if i%2 == 1 {
			return other.EndLease(t.ctx, l, t.now())
		}
		return t.l.EndLease(t.ctx, l, t.now())
	})
	if wins != 1 {
		t.Errorf("%d calls ended the lease first", wins)
	}
	t.alive(false, l)
}

func leaseCapRace(t *liveStoreTest) {
	id := t.task(1)
	other := t.second()
	wins := t.race(16, func(i int) (bool, error) {
		l := t.l
		if i%2 == 1 {
			l = other
		}
		return won(l.PutLease(t.ctx, t.lease(id, i, time.Minute), broker.LeaseLimits{Task: 5}, false), broker.ErrCap)
	})
	if wins != 5 {
		t.Errorf("%d leases under a cap of 5", wins)
	}
	if got := t.close(id); got.Live != 5 {
		t.Errorf("%d live, want 5", got.Live)
	}
}

// I2: when a close is acknowledged no lease is alive, regardless of the answer to a
// concurrent put.
func leaseCloseRace(t *liveStoreTest) {
	other := t.second()
	for round := range 10 {
		id := t.task(round)
		var mu sync.Mutex
		closed := false
		t.race(16, func(i int) (bool, error) {
			l := t.l
			if i%2 == 1 {
				l = other
			}
			if i == 7 {
				_, _, err := l.SetState(t.ctx, id, broker.TaskClosed, t.now(), t.keep())
				mu.Lock()
				defer mu.Unlock()
				closed = true
				return true, err
			}
			for n := range 5 {
				mu.Lock()
				late := closed
				mu.Unlock()
				lease := t.lease(id, i*100+n, time.Minute)
				err := l.PutLease(t.ctx, lease, broker.LeaseLimits{}, n%2 == 0)
				if err == nil && late {
					err = errors.New("a put after the close was accepted")
				}
				if _, err = won(err, broker.ErrTaskClosed); err != nil {
					return false, err
				}
				alive, err := l.Status(t.ctx, id, lease.ID, t.now())
				if err == nil && alive && late {
					err = errors.New("alive after the close")
				}
				if err != nil {
					return false, err
				}
			}
			return true, nil
		})
		for i := range 16 {
			for n := range 5 {
				t.alive(false, t.lease(id, i*100+n, time.Minute))
			}
		}
	}
}

func leaseEndPutRace(t *liveStoreTest) {
	id := t.task(1)
	for n := range 20 {
		l := t.lease(id, n, time.Minute)
		t.race(16, func(i int) (bool, error) {
			if i == 7 {
				_, err := t.l.EndLease(t.ctx, l, t.now())
				return true, err
			}
			return won(t.l.PutLease(t.ctx, l, broker.LeaseLimits{}, true), broker.ErrDone)
		})
		t.alive(false, l)
	}
}
