package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// sides returns two process runs on the database, in turns.
func (t *queueTest) sides() func(i int) broker.Store {
	second := t.another()
	return func(i int) broker.Store { return []broker.Store{t.Store, second.Store}[i%2] }
}

// Replicas that take at the same time share the leases: each lease has one holder.
func raceTake(t *queueTest) {
	side := t.sides()
	now := Epoch.Add(5 * time.Minute)
	want := 0
	for range 5 {
		task := t.openTask()
		for range 20 {
			t.intent(task.ID)
			want++
		}
	}
	var mu sync.Mutex
	holders := map[string]int{}
	errs := race(8, func(i int) error {
		for {
			got, err := side(i).Take(context.WithoutCancel(t.Context()), "cloud", now, now.Add(time.Minute), 7)
			mu.Lock()
			for _, c := range got {
				holders[c.ID]++
				if c.Fence != 2 {
					err = errors.Join(err, fmt.Errorf("fence %d of a first claim", c.Fence))
				}
			}
			mu.Unlock()
			if err != nil || len(got) == 0 {
				return err
			}
		}
	})
	t.want("take", errors.Join(errs...), nil)
	t.same("claimed", len(holders), want)
	for id, n := range holders {
		if n != 1 {
			t.Errorf("%s has %d holders", id, n)
		}
	}
	// One lease that all replicas take has one holder.
	later := now.Add(time.Minute)
	wins := 0
	for range 10 {
		errs = race(8, func(i int) error {
			got, err := side(i).Take(context.WithoutCancel(t.Context()), "cloud", later, later.Add(time.Minute), 1)
			mu.Lock()
			defer mu.Unlock()
			wins += len(got)
			for _, c := range got {
				if holders[c.ID]++; holders[c.ID] != 2 {
					err = errors.Join(err, fmt.Errorf("%s was claimed twice", c.ID))
				}
			}
			return err
		})
		t.want("take", errors.Join(errs...), nil)
	}
	t.same("claimed", wins, 80)
}

// Either live was first and the close moved it to revoking, or settling got ErrTaskClosed
// with the handle stored. In both cases its revocation is pending.
func raceCloseSettle(t *queueTest) {
	side := t.sides()
	outcomes := map[bool]int{}
	for round := range 40 {
		task := t.openTask()
		ls := make([]broker.Lease, 4)
		for i := range ls {
			ls[i] = t.intent(task.ID)
		}
		end := Epoch.Add(3 * time.Minute)
		errs := race(5, func(i int) error {
			if i == 4 {
				return side(round).Append(context.WithoutCancel(t.Context()), broker.Record{MoveTask: closing(task.ID, end)})
			}
			e := Entry(audit.LeaseIssued, task.ID)
			e.LeaseID = ls[i].ID
			return side(i).Append(context.WithoutCancel(t.Context()), broker.Record{SettleLease: lived(ls[i]), Entries: []audit.Entry{e}})
		})
		t.want("close", errs[4], nil)
		for i, l := range ls {
			if errs[i] != nil && !errors.Is(errs[i], broker.ErrTaskClosed) {
				t.Fatalf("settle: got %v", errs[i])
			}
			outcomes[errs[i] == nil]++
			want := 1 // for the intent
			if errs[i] == nil {
				want++
			}
			t.same("entries", len(t.entries(broker.EntryFilter{LeaseID: l.ID})), want)
		}
		claims := t.take(end.Add(time.Second), 10)
		t.same("pending_revocations", len(claims), 4)
		for _, c := range claims {
			if c.State != broker.LeaseRevoking || c.Upstream.Handle != "v1.key1."+c.ID || !c.RevokedAt.Equal(end) || c.Upstream.NextAt.After(end) {
				t.Fatalf("got %+v %+v, want it revoking since the end, with its handle", c, c.Upstream)
			}
			t.want("dead", t.settle(done(c.ID, c.Fence, broker.LeaseRevoked, end)), nil)
		}
	}
	t.Logf("live first: %d, end first: %d", outcomes[true], outcomes[false])
}

// An intent is either recorded before the close of its task, which moves it, or refused.
func raceCloseIssue(t *queueTest) {
	side := t.sides()
	for round := range 40 {
		task := t.openTask()
		end := Epoch.Add(3 * time.Minute)
		var ls [8]broker.Lease
		errs := race(9, func(i int) error {
			if i == 8 {
				return side(round).Append(context.WithoutCancel(t.Context()), broker.Record{MoveTask: closing(task.ID, end)})
			}
			ls[i] = Intent(task.ID)
			return side(i).Append(context.WithoutCancel(t.Context()), broker.Record{IssueLease: &ls[i]})
		})
		t.want("close", errs[8], nil)
		made := t.winners("issue", errs[:8], broker.ErrTaskClosed)
		got := t.leases(broker.LeaseFilter{TaskID: task.ID, State: broker.LeaseRevoking})
		t.same("pending_revocations", len(got), made)
		t.same("any", len(t.leases(broker.LeaseFilter{TaskID: task.ID})), made)
	}
}

// An outcome with an old claim is refused; the one with the last claim is stored.
func raceFence(t *queueTest) {
	side := t.sides()
	task := t.openTask()
	for range 10 {
		l := t.pending(task.ID, Epoch.Add(2*time.Minute))
		now := l.RevokedAt
		for range 3 {
			t.take(now, 1)
			now = now.Add(time.Minute)
		}
		errs := race(16, func(i int) error {
			m := done(l.ID, int64(1+i%4), broker.LeaseRevoked, now)
			m.By = fmt.Sprint(i)
			e := Entry(audit.LeaseRevoked, task.ID)
			e.LeaseID = l.ID
			return side(i).Append(context.WithoutCancel(t.Context()), broker.Record{SettleLease: &m, Entries: []audit.Entry{e}})
		})
		t.same("winners", t.winners("settle", errs, broker.ErrDone), 1)
		t.same("entries", len(t.entries(broker.EntryFilter{LeaseID: l.ID, Kind: audit.LeaseRevoked})), 1)
		for i, err := range errs {
			if err == nil && i%4 != 3 {
				t.Errorf("fence %d won, want 4", 1+i%4)
			}
		}
	}
}

// A person, the revocation queue, the minter and the close of the task act at the same
// time. In any order, the lease never becomes live again, and is in the queue or settled.
func raceEnd(t *queueTest) {
	side := t.sides()
	for round := range 30 {
		task := t.openTask()
		l := t.intent(task.ID)
		at := Epoch.Add(3 * time.Minute)
		race(8, func(i int) error {
			var r broker.Record
			switch (i + round) % 4 {
			case 0:
				r.SettleLease = lived(l)
			case 1:
				r.EndLease = &broker.LeaseEnd{ID: l.ID, State: broker.LeaseRevoking, By: "ops", At: at}
			case 2:
				r.MoveTask = closing(task.ID, at)
			case 3:
				_, err := side(i).Take(context.WithoutCancel(t.Context()), "cloud", at, at.Add(time.Second), 1)
				if err != nil {
					t.Error(err)
				}
				return err
			}
			err := side(i).Append(context.WithoutCancel(t.Context()), r)
			if err != nil && !errors.Is(err, broker.ErrDone) && !errors.Is(err, broker.ErrTaskClosed) {
				t.Errorf("got %v", err)
			}
			return err
		})
		if got := t.leaseAt(l.ID, at); got.State != broker.LeaseRevoking {
			t.Fatalf("got %s, want it revoking", got.State)
		}
		got := t.take(at.Add(time.Hour), 10)
		t.same("in the revocation queue", ids(got), []string{l.ID})
		t.want("dead", t.settle(done(l.ID, got[0].Fence, broker.LeaseRevoked, at)), nil)
	}
}

// After a process that ends at any step, the next one finds the lease, with the stored
// handle. A late outcome of the first process is refused.
func crashBetweenSteps(t *queueTest) {
	for i, step := range []func(l broker.Lease){
		func(broker.Lease) {}, // the intent alone
		func(l broker.Lease) {
			m := lived(l)
			m.State, m.Upstream.NextAt, m.Hold = broker.LeaseIntent, l.Upstream.NextAt, l.Upstream.NextAt
			t.want("save the handle", t.settle(*m), nil)
		},
		func(l broker.Lease) { t.want("live", t.settle(*lived(l)), nil) },
		func(l broker.Lease) { t.close(l.TaskID, l.IssuedAt.Add(time.Second)) },
		func(l broker.Lease) {
			t.want("live", t.settle(*lived(l)), nil)
			t.same("taken", ids(t.take(l.ExpiresAt, 1)), []string{l.ID})
		},
		func(l broker.Lease) {
			m := done(l.ID, 1, broker.LeaseRevoking, l.IssuedAt.Add(time.Second))
			m.Upstream.Proof, m.Upstream.DeadAt, m.Upstream.Handle = "", time.Time{}, "v1.key1."+l.ID
			t.want("accepted", t.settle(m), nil)
		},
	} {
		l := t.intent(t.openTask().ID)
		step(l)
		before := t.leaseAt(l.ID, l.IssuedAt)
		t.want("close", t.Close(), nil)
		t.Stores = t.another()
		t.same(fmt.Sprint("after step ", i), t.leaseAt(l.ID, l.IssuedAt), before)
		got := t.take(l.ExpiresAt.Add(2*time.Hour), 10)
		t.same("found", ids(got), []string{l.ID})
		if hasHandle := i != 0 && i != 3; hasHandle != (got[0].Upstream.Handle == "v1.key1."+l.ID) {
			t.Errorf("after step %d: got the handle %q", i, got[0].Upstream.Handle)
		}
		t.want("the dead process", t.settle(*lived(l)), broker.ErrDone)
		t.want("dead", t.settle(done(l.ID, got[0].Fence, broker.LeaseRevoked, l.ExpiresAt)), nil)
	}
}
