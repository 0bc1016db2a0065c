package memstore

import (
	"container/heap"
	"context"
	"time"

	"ebb/broker"
)

// dueIndex finds the tasks that are due. A task has at most one entry in the
// heap, at a moment that is never later than the one it is due: moving a task
// to a later moment, as every heartbeat does, costs nothing, and the entry is
// corrected when it comes up.
type dueIndex struct {
	heap  dueHeap
	entry map[string]*dueEntry
}

type dueEntry struct {
	id    string
	at    int64 // position in the heap
	due   int64 // when it really is due, or visible again after a take
	index int
}

func newDueIndex() dueIndex { return dueIndex{entry: map[string]*dueEntry{}} }

func due(l broker.Live) int64 {
	if l.Due.IsZero() {
		return 0
	}
	return l.Due.UnixMilli()
}

// offer makes id due at ms. 0 is never: a task without a due moment is not
// looked at.
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

// Due implements broker.TaskTable. A Touch that sets Due shows a hidden task
// again from that moment on.
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
			e.due = max(until, ms+1) // a hold in the past must not end in a loop
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
