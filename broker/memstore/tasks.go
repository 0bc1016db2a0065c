package memstore

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// task is a task and its leases. A shell is a task that PutTask has not made known: it
// holds only the ids of its revoked leases.
type task struct {
	known  bool
	live   broker.Live   // its State is "" while not known
	keep   int64         // kept until then, once closed
	counts broker.Counts // at the moment it was closed

	leases   map[string]int64 // id -> expiry; nil once closed
	expiries []int64          // of leases, sorted: counting is a binary search
	ended    map[string]int64 // revoked leases: id -> expiry
	owner    *owner           // counts its leases, from the first one on; nil once closed
}

// rank orders states: putting a task again never lowers its rank.
func rank(s broker.TaskState) (int, error) {
	switch s {
	case broker.TaskOpen:
		return 1, nil
	case broker.TaskPaused:
		return 2, nil
	case broker.TaskClosed:
		return 3, nil
	}
	return 0, fmt.Errorf("unknown task state %q", s)
}

// PutTask implements broker.TaskTable. A known task keeps the stricter of the two states,
// the higher counters, its due time and its sandbox. A closed task is published as if
// SetState had closed it.
func (s *Store) PutTask(ctx context.Context, l broker.Live, keep time.Time) error {
	level, err := rank(l.State)
	if err != nil {
		return err
	}
	if l.ID == "" {
		return fmt.Errorf("task without an id")
	}
	l = truncate(clone(l))
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	t := s.tasks[l.ID]
	if t == nil {
		t = &task{}
		s.tasks[l.ID] = t
	}
	if t.known {
		had, box := t.live, l.Sandbox
		if held, _ := rank(had.State); held > level {
			l.Task = had.Task
		}
		if l.Sandbox = had.Sandbox; l.Sandbox == nil {
			l.Sandbox = box
		}
		if l.ClosedAt.IsZero() {
			l.ClosedAt = had.ClosedAt
		}
		if !had.Due.IsZero() {
			l.Due = had.Due
		}
		l.Denials, l.Violations = max(l.Denials, had.Denials), max(l.Violations, had.Violations)
		l.Taint = broker.AddTaint(had.Taint, l.Taint)
	} else {
		l.Taint = broker.AddTaint(nil, l.Taint)
	}
	wasClosed := t.known && t.live.State == broker.TaskClosed
	t.known, t.live = true, l
	t.keep = max(t.keep, keep.UnixMilli())
	switch {
	case l.State == broker.TaskClosed && !wasClosed:
		at := now
		if !l.ClosedAt.IsZero() {
			at = l.ClosedAt.UnixMilli()
		}
		s.close(l.ID, t, at)
	case l.State != broker.TaskClosed && s.due.entry[l.ID] == nil: // a known one may be held by a taker
		s.due.offer(l.ID, due(l))
	}
	return nil
}

// close makes t final. It takes O(1): the map that holds the leases is dropped. The
// caller has set keep.
func (s *Store) close(id string, t *task, at int64) {
	t.counts = t.count(at)
	t.leases, t.expiries = nil, nil
	s.release(t)
	s.due.drop(id)
	s.expiry.add(t.keep, item{ofTask, id, ""})
	s.feed.publish(broker.Event{TaskID: id, At: instant(at), Until: instant(t.keep)})
}

// SetState implements broker.TaskTable. Closing again returns the counts of the first
// close. first is true for every other move.
func (s *Store) SetState(ctx context.Context, id string, state broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if _, err := rank(state); err != nil {
		return broker.Counts{}, false, err
	}
	if _, err := s.begin(ctx); err != nil {
		return broker.Counts{}, false, err
	}
	defer s.mu.Unlock()
	t := s.tasks[id]
	closing := state == broker.TaskClosed
	switch {
	case (t == nil || !t.known) && !closing:
		return broker.Counts{}, false, fmt.Errorf("task %s: %w", id, broker.ErrNotFound)
	case t == nil:
		t = &task{}
		s.tasks[id] = t
	case t.known && t.live.State == broker.TaskClosed:
		if !closing {
			return broker.Counts{}, false, fmt.Errorf("task %s: %w", id, broker.ErrTaskClosed)
		}
		t.keep = max(t.keep, keep.UnixMilli())
		return t.counts, false, nil
	}
	ms := at.UnixMilli()
	if !closing {
		t.live.State = state
		if state == broker.TaskPaused {
			s.feed.publish(broker.Event{TaskID: id, LeaseID: broker.PauseMark, At: instant(ms), Until: instant(ms).Add(broker.PauseKept)})
		}
		return t.count(ms), true, nil
	}
	t.known = true
	t.live.ID, t.live.State, t.live.ClosedAt = id, state, instant(ms)
	t.keep = max(t.keep, keep.UnixMilli())
	s.close(id, t, ms)
	return t.counts, true, nil
}

// Touch implements broker.TaskTable. An unknown task is ErrNotFound. Two sandboxes are
// the same if their id, attestor, subject and key are.
func (s *Store) Touch(ctx context.Context, id string, u broker.Touch) (broker.Live, error) {
	if _, err := s.begin(ctx); err != nil {
		return broker.Live{}, err
	}
	defer s.mu.Unlock()
	t := s.tasks[id]
	switch {
	case t == nil || !t.known:
		return broker.Live{}, fmt.Errorf("task %s: %w", id, broker.ErrNotFound)
	case t.live.State == broker.TaskClosed:
		return broker.Live{}, fmt.Errorf("task %s: %w", id, broker.ErrTaskClosed)
	}
	if u.Sandbox != nil {
		if had := t.live.Sandbox; had == nil {
			t.live.Sandbox = truncate(clone(broker.Live{Task: broker.Task{Sandbox: u.Sandbox}})).Sandbox
		} else if !sameSandbox(had, u.Sandbox) {
			return broker.Live{}, fmt.Errorf("task %s has another sandbox: %w", id, broker.ErrClaimed)
		}
	}
	if !u.Due.IsZero() {
		t.live.Due = instant(u.Due.UnixMilli())
		s.due.offer(id, due(t.live))
	}
	t.live.Denials += u.Denials
	t.live.Violations += u.Violations
	t.live.Taint = broker.AddTaint(t.live.Taint, u.Taint)
	return clone(t.live), nil
}

func sameSandbox(a, b *broker.Sandbox) bool {
	return a.ID == b.ID && a.Attestor == b.Attestor && a.Subject == b.Subject && a.JKT == b.JKT
}

// forget drops a closed task when its keep time is over, else returns that time.
func (t *task) forget(s *Store, id string, ms int64) (again int64) {
	if t.live.State != broker.TaskClosed {
		return 0
	}
	if t.keep > ms {
		return t.keep
	}
	t.known, t.live = false, broker.Live{}
	s.dropShell(id, t)
	return 0
}

// dropShell removes a shell that holds no more revoked leases.
func (s *Store) dropShell(id string, t *task) {
	if !t.known && len(t.ended) == 0 {
		delete(s.tasks, id)
	}
}

// clone copies everything that l refers to: callers may change the result.
func clone(l broker.Live) broker.Live {
	l.Labels = maps.Clone(l.Labels)
	l.Expect.Selectors = maps.Clone(l.Expect.Selectors)
	l.Taint = slices.Clone(l.Taint)
	l.Ancestors = slices.Clone(l.Ancestors)
	if l.Delegation != nil {
		d := *l.Delegation
		d.Expect.Selectors = maps.Clone(d.Expect.Selectors)
		l.Delegation = &d
	}
	if l.Sandbox != nil {
		box := *l.Sandbox
		box.Selectors = maps.Clone(box.Selectors)
		l.Sandbox = &box
	}
	return l
}

// truncate truncates every time of l to milliseconds, also those behind pointers.
func truncate(l broker.Live) broker.Live {
	times := []*time.Time{&l.OpenedAt, &l.Deadline, &l.ClosedAt, &l.Due}
	if l.Sandbox != nil {
		times = append(times, &l.Sandbox.At)
	}
	for _, t := range times {
		if !t.IsZero() {
			*t = instant(t.UnixMilli())
		}
	}
	return l
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// dueIndex finds the due tasks. A task has at most one entry in the heap, whose time is
// never later than the task's due time. Moving a task to a later time, as every heartbeat
// does, does not change the heap; the entry is corrected when it comes up.
type dueIndex struct {
	heap  dueHeap
	entry map[string]*dueEntry
}

type dueEntry struct {
	id    string
	at    int64 // position in the heap
	due   int64 // when the task is due, or visible again after a take
	index int
}

func newDueIndex() dueIndex { return dueIndex{entry: map[string]*dueEntry{}} }

func due(l broker.Live) int64 {
	if l.Due.IsZero() {
		return 0
	}
	return l.Due.UnixMilli()
}

// offer makes id due at ms. 0 is never: such a task has no entry.
func (d *dueIndex) offer(id string, ms int64) {
	if ms == 0 {
		return
	}
	e := d.entry[id]
	if e == nil {
		e = &dueEntry{id: id, at: ms, due: ms}
		d.entry[id] = e
		heap.Push(&d.heap, e)
		return
	}
	e.due = ms
	if ms < e.at {
		d.move(e, ms)
	}
}

func (d *dueIndex) move(e *dueEntry, ms int64) {
	e.at = ms
	heap.Fix(&d.heap, e.index)
}

func (d *dueIndex) drop(id string) {
	if e := d.entry[id]; e != nil {
		heap.Remove(&d.heap, e.index)
		delete(d.entry, id)
	}
}

// Due implements broker.TaskTable. A Touch that sets Due makes a hidden task visible
// again from that time on.
func (s *Store) Due(ctx context.Context, now, hold time.Time, n int) ([]string, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	ms, until := now.UnixMilli(), hold.UnixMilli()
	var out []string
	for len(out) < n && len(s.due.heap) > 0 && s.due.heap[0].at <= ms {
		e := s.due.heap[0]
		if e.due <= ms {
			out = append(out, e.id)
			e.due = max(until, ms+1) // a hold in the past must not cause an endless loop
		}
		s.due.move(e, e.due)
	}
	return out, nil
}

// dueHeap implements heap.Interface.
type dueHeap []*dueEntry

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(v any) {
	e := v.(*dueEntry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
