package memstore

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// count returns the number of live and expired leases of t at ms.
func (t *task) count(ms int64) broker.Counts {
	expired := sort.Search(len(t.expiries), func(i int) bool { return t.expiries[i] > ms })
	return broker.Counts{Live: len(t.expiries) - expired, Expired: expired}
}

func (t *task) forgetLease(id string) {
	exp, known := t.leases[id]
	if !known {
		return
	}
	delete(t.leases, id)
	i, _ := slices.BinarySearch(t.expiries, exp)
	t.expiries = slices.Delete(t.expiries, i, i+1)
}

// PutLease implements broker.LeaseTable. It checks the task's state first, then whether
// the lease was revoked, then whether it exists, then the limits.
func (s *Store) PutLease(ctx context.Context, l broker.LiveLease, limits broker.LeaseLimits, refill bool) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	t := s.tasks[l.TaskID]
	switch {
	case t == nil || !t.known:
		return fmt.Errorf("task %s: %w", l.TaskID, broker.ErrNotFound)
	case t.live.State == broker.TaskClosed:
		return fmt.Errorf("task %s: %w", l.TaskID, broker.ErrTaskClosed)
	case t.live.State == broker.TaskPaused && !refill:
		return fmt.Errorf("task %s: %w", l.TaskID, broker.ErrTaskPaused)
	}
	if _, ended := t.ended[l.ID]; ended {
		return fmt.Errorf("lease %s: %w", l.ID, broker.ErrDone)
	}
	if _, known := t.leases[l.ID]; known {
		return nil
	}
	if limits.Task > 0 && t.count(now).Live >= limits.Task {
		return fmt.Errorf("task %s has %d live leases: %w", l.TaskID, limits.Task, broker.ErrCap)
	}
	exp := l.ExpiresAt.UnixMilli()
	if exp > now && !s.take(t, limits.Owner, now) {
		return fmt.Errorf("the owner of task %s has %d live leases: %w", l.TaskID, limits.Owner, broker.ErrOwnerCap)
	}
	if t.leases == nil {
		t.leases = map[string]int64{}
	}
	t.leases[l.ID] = exp
	i, _ := slices.BinarySearch(t.expiries, exp)
	t.expiries = slices.Insert(t.expiries, i, exp)
	s.expiry.add(exp+retention.Milliseconds(), item{ofLease, t.live.ID, l.ID})
	return nil
}

// EndLease implements broker.LeaseTable, also for an unknown lease or task.
func (s *Store) EndLease(ctx context.Context, l broker.LiveLease, at time.Time) (bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	t := s.tasks[l.TaskID]
	if t == nil {
		t = &task{}
		s.tasks[l.TaskID] = t
	}
	if _, ended := t.ended[l.ID]; ended {
		return false, nil
	}
	t.forgetLease(l.ID)
	if t.ended == nil {
		t.ended = map[string]int64{}
	}
	exp := l.ExpiresAt.UnixMilli()
	t.ended[l.ID] = exp
	s.expiry.add(exp+retention.Milliseconds(), item{ofEnded, l.TaskID, l.ID})
	s.feed.publish(broker.Event{TaskID: l.TaskID, LeaseID: l.ID, At: instant(at.UnixMilli()), Until: instant(exp)})
	return true, nil
}

// Status implements broker.LeaseTable.
func (s *Store) Status(ctx context.Context, taskID, leaseID string, now time.Time) (bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	t := s.tasks[taskID]
	if t == nil {
		return false, nil
	}
	exp, known := t.leases[leaseID] // nil once the task is closed
	return known && exp > now.UnixMilli(), nil
}

// ownerKey identifies an owner. The owner's name comes from the runner and is unique only
// at that runner.
type ownerKey struct{ runner, owner string }

// owner counts the leases of all tasks of one owner.
type owner struct {
	key   ownerKey
	tasks map[*task]struct{} // tasks that had a lease and are not closed
	// room is how many leases may be put, under limit, before they must be counted again.
	// Leases that expire or are revoked in the meantime only increase it.
	room, limit int
}

// take takes a place for one lease at the owner of t, and reports whether there was one.
// A limit of 0 means no limit.
func (s *Store) take(t *task, limit int, now int64) bool {
	o := t.owner
	if o == nil {
		key := ownerKey{t.live.Runner, t.live.Owner}
		if o = s.owners[key]; o == nil {
			o = &owner{key: key, tasks: map[*task]struct{}{}}
		}
	}
	if limit > 0 && (o.room <= 0 || o.limit != limit) {
		o.limit, o.room = limit, limit
		for held := range o.tasks {
			o.room -= held.count(now).Live
		}
		if o.room <= 0 {
			return false
		}
	}
	o.room--
	o.tasks[t], t.owner, s.owners[o.key] = struct{}{}, o, o
	return true
}

// release frees all places of t, a closed task, in one step.
func (s *Store) release(t *task) {
	if t.owner == nil {
		return
	}
	delete(t.owner.tasks, t)
	if len(t.owner.tasks) == 0 {
		delete(s.owners, t.owner.key)
	}
	t.owner = nil
}
