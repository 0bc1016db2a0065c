package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// ofOwner opens a task of an owner at a runner.
func (t *liveStoreTest) ofOwner(n int, owner, runner string) string {
	l := t.live(t.id("tsk", n))
	l.Owner, l.Runner = owner, runner
	return t.put(l)
}

// owned puts a lease under a limit of its owner.
func (t *liveStoreTest) owned(l broker.LiveLease, limit int) error {
	return t.l.PutLease(t.ctx, l, broker.LeaseLimits{Owner: limit}, false)
}

func (t *liveStoreTest) end(l broker.LiveLease) {
	t.Helper()
	_, err := t.l.EndLease(t.ctx, l, t.now())
	t.want("EndLease", err, nil)
}

func ownerCap(t *liveStoreTest) {
	a, b := t.task(1), t.task(2)
	t.want("first", t.owned(t.lease(a, 1, time.Minute), 3), nil)
	t.want("second", t.owned(t.lease(a, 2, 2*time.Minute), 3), nil)
	t.want("third, of another task", t.owned(t.lease(b, 3, 3*time.Minute), 3), nil)
	next := t.lease(b, 9, time.Hour)
	t.want("over the cap", t.owned(next, 3), broker.ErrOwnerCap)
	t.alive(false, next)
	t.want("another client", t.second().PutLease(t.ctx, next, broker.LeaseLimits{Owner: 3}, false), broker.ErrOwnerCap)
	t.want("a known one at the cap", t.owned(t.lease(a, 1, time.Minute), 3), nil)
	t.alive(true, t.lease(a, 1, time.Minute))
	t.want("one that has expired takes no place", t.owned(t.lease(b, 8, -time.Second), 3), nil)
	t.want("a higher cap", t.owned(t.lease(b, 4, 4*time.Minute), 4), nil)
	t.want("no cap", t.owned(t.lease(b, 5, 4*time.Minute), 0), nil)
	t.clock.move(time.Minute) // the first expires
	t.want("five less one", t.owned(next, 4), broker.ErrOwnerCap)
	t.want("five less one", t.owned(next, 5), nil)
}

func ownerCapRace(t *liveStoreTest) {
	clients := []broker.LiveStore{t.l, t.second()}
	ids := []string{t.task(1), t.task(2), t.task(3)}
	wins := t.race(32, func(i int) (bool, error) {
		l := t.lease(ids[i%3], i, time.Minute)
		return won(clients[i%2].PutLease(t.ctx, l, broker.LeaseLimits{Owner: 7}, false), broker.ErrOwnerCap)
	})
	live := 0
	for _, id := range ids {
		live += t.close(id).Live
	}
	if wins != 7 || live != 7 {
		t.Errorf("%d won and %d are live, under a cap of 7", wins, live)
	}
}

func ownerEnds(t *liveStoreTest) {
	a, b := t.task(1), t.task(2)
	for i := range 4 {
		t.want("PutLease", t.owned(t.lease(a, i, time.Minute), 5), nil)
	}
	t.want("PutLease", t.owned(t.lease(b, 4, time.Minute), 5), nil)
	t.want("full", t.owned(t.lease(b, 5, time.Minute), 5), broker.ErrOwnerCap)
	for range 2 { // a revocation frees its place once
		t.end(t.lease(b, 4, time.Minute))
	}
	t.want("one ended", t.owned(t.lease(b, 6, time.Minute), 5), nil)
	t.want("one ended", t.owned(t.lease(b, 7, time.Minute), 5), broker.ErrOwnerCap)
	t.end(t.lease(a, 77, time.Minute)) // an unknown lease
	t.want("none ended", t.owned(t.lease(b, 7, time.Minute), 5), broker.ErrOwnerCap)
	for range 2 { // the close of a task frees all of its places
		t.close(a)
	}
	t.end(t.lease(a, 1, time.Minute)) // its place is free already
	for i := range 4 {
		t.want("a task ended", t.owned(t.lease(b, 10+i, time.Minute), 5), nil)
	}
	t.want("full", t.owned(t.lease(b, 20, time.Minute), 5), broker.ErrOwnerCap)
	// A task that is put closed was closed by another process.
	closed := t.live(b)
	closed.State = broker.TaskClosed
	t.put(closed)
	c := t.task(3)
	for i := range 5 {
		t.want("another task ended", t.owned(t.lease(c, 30+i, time.Minute), 5), nil)
	}
	t.want("full", t.owned(t.lease(c, 40, time.Minute), 5), broker.ErrOwnerCap)
}

// After any refusal of a lease, its owner's place is free again.
func ownerRefused(t *liveStoreTest) {
	a, b, shut := t.task(1), t.task(2), t.task(3)
	t.close(shut)
	t.want("PutLease", t.owned(t.lease(a, 1, time.Minute), 2), nil)
	ended := t.lease(a, 2, time.Minute)
	t.end(ended)
	for range 3 {
		t.want("ended", t.owned(ended, 2), broker.ErrDone)
		t.want("closed", t.owned(t.lease(shut, 3, time.Minute), 2), broker.ErrTaskClosed)
		t.want("cap of the task", t.l.PutLease(t.ctx, t.lease(a, 4, time.Minute), broker.LeaseLimits{Task: 1, Owner: 2}, false), broker.ErrCap)
		t.want("unknown", t.owned(t.lease(t.id("tsk", 99), 5, time.Minute), 2), broker.ErrNotFound)
	}
	_, _, err := t.l.SetState(t.ctx, a, broker.TaskPaused, t.now(), t.keep())
	t.want("SetState", err, nil)
	for range 3 {
		t.want("paused", t.owned(t.lease(a, 6, time.Minute), 2), broker.ErrTaskPaused)
		t.want("paused, a known one", t.owned(t.lease(a, 1, time.Minute), 2), broker.ErrTaskPaused)
	}
	t.want("PutLease", t.owned(t.lease(b, 7, time.Minute), 2), nil)
	t.want("full", t.owned(t.lease(b, 8, time.Minute), 2), broker.ErrOwnerCap)
	// A lease refused for its owner takes no place of its task.
	t.want("full", t.l.PutLease(t.ctx, t.lease(b, 9, time.Minute), broker.LeaseLimits{Task: 2, Owner: 2}, false), broker.ErrOwnerCap)
	t.want("room in the task", t.l.PutLease(t.ctx, t.lease(b, 9, time.Minute), broker.LeaseLimits{Task: 2, Owner: 3}, false), nil)
}

// The owner's name is that of a runner: it does not count against the tasks of another
// runner.
func ownerOfRunner(t *liveStoreTest) {
	ids := []string{t.ofOwner(1, "ann", "ci"), t.ofOwner(2, "ann", "cd"), t.ofOwner(3, "bob", "ci"), t.ofOwner(4, "n}{ann", "ci"), t.ofOwner(5, "", "")}
	for i, id := range ids {
		t.want("PutLease "+id, t.owned(t.lease(id, i, time.Minute), 1), nil)
	}
	again := t.ofOwner(6, "ann", "ci")
	t.want("full", t.owned(t.lease(again, 6, time.Minute), 1), broker.ErrOwnerCap)
	t.close(ids[1])
	t.want("still full", t.owned(t.lease(again, 6, time.Minute), 1), broker.ErrOwnerCap)
	t.close(ids[0])
	t.want("free", t.owned(t.lease(again, 6, time.Minute), 1), nil)
}

// A refill counts, regardless of the limit, and counts no lease twice.
func ownerRefill(t *liveStoreTest) {
	a, b := t.task(1), t.task(2)
	for range 3 {
		for i := range 4 {
			t.want("refill", t.l.PutLease(t.ctx, t.lease(a, i, time.Minute), broker.LeaseLimits{}, true), nil)
		}
	}
	t.want("full", t.owned(t.lease(b, 9, time.Minute), 4), broker.ErrOwnerCap)
	t.want("room for one", t.owned(t.lease(b, 9, time.Minute), 5), nil)
	t.want("full", t.owned(t.lease(b, 10, time.Minute), 5), broker.ErrOwnerCap)
}

// Closed tasks with many leases block no places, neither before nor after these leases
// expire.
func ownerManyEnded(t *liveStoreTest) {
	const many = 200
	for n := range 4 {
		id := t.task(n)
		for i := range many {
			t.want("PutLease", t.owned(t.lease(id, n*many+i, time.Minute), many), nil)
		}
		t.want("full", t.owned(t.lease(id, 9999, time.Minute), many), broker.ErrOwnerCap)
		t.close(id)
	}
	t.clock.move(2 * time.Minute)
	id := t.task(9)
	for i := range many {
		t.want("PutLease", t.owned(t.lease(id, 2000+i, time.Minute), many), nil)
	}
	t.want("full", t.owned(t.lease(id, 3000, time.Minute), many), broker.ErrOwnerCap)
	t.clock.move(time.Hour)
	t.want("all have expired", t.owned(t.lease(t.task(10), 4000, time.Minute), 1), nil)
}

// Concurrent puts, revocations and closes never exceed the limit, and afterwards every
// place is free.
func ownerRace(t *liveStoreTest) {
	const limit, tasks = 6, 8
	clients := []broker.LiveStore{t.l, t.second()}
	var wg sync.WaitGroup
	for n := range tasks {
		id := t.task(n)
		l := clients[n%2]
		wg.Go(func() {
			ctx := context.WithoutCancel(t.ctx)
			for i := range 10 {
				lease := t.lease(id, n*100+i, time.Minute)
				err := l.PutLease(ctx, lease, broker.LeaseLimits{Owner: limit}, false)
				if err == nil && i%3 == 0 {
					_, err = l.EndLease(ctx, lease, t.now())
				}
				if err != nil && !errors.Is(err, broker.ErrOwnerCap) && !errors.Is(err, broker.ErrTaskClosed) {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			if n%2 == 0 {
				if _, _, err := l.SetState(context.WithoutCancel(t.ctx), id, broker.TaskClosed, t.now(), t.keep()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	live := 0
	for n := range tasks {
		for i := range 10 {
			alive, err := t.l.Status(t.ctx, t.id("tsk", n), t.id("lse", n*100+i), t.now())
			t.want("Status", err, nil)
			if alive {
				live++
			}
		}
	}
	if live > limit {
		t.Errorf("%d are live under a cap of %d", live, limit)
	}
	for n := range tasks {
		t.close(t.id("tsk", n))
	}
	t.clock.move(2 * time.Minute)
	id := t.task(50)
	for i := range limit {
		t.want(fmt.Sprint("place ", i), t.owned(t.lease(id, 1000+i, time.Minute), limit), nil)
	}
	t.want("full", t.owned(t.lease(id, 2000, time.Minute), limit), broker.ErrOwnerCap)
}
