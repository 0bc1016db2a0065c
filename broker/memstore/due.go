package memstore

import (
	"container/heap"
	"context"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

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

func (h dueHeap) Len() int           { return len(h) }
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
