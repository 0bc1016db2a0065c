package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

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
