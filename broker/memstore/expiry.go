package memstore

import (
	"cmp"
	"container/heap"
)

// kind is the table of an item of the expiry queue.
type kind uint8

const (
	ofTask kind = iota
	ofLease
	ofEnded
	ofClaim
	ofRate
	ofValue
	ofPace
)

// item refers to an entry of a table that may have expired. It is a hint: the table
// decides whether the entry has expired.
type item struct {
	kind kind
	key  string
	sub  string // lease id
}

// expiry is a queue of items by the second in which they expire. It is a heap of seconds,
// not of items, so that adding an item is an append.
type expiry struct {
	seconds minHeap[int64]
	items   map[int64][]item
}

func newExpiry() expiry { return expiry{items: map[int64][]item{}} }

// add queues it for ms, rounded up to the next second.
func (e *expiry) add(ms int64, it item) {
	sec := ms/1000 + 1
	list, known := e.items[sec]
	if !known {
		heap.Push(&e.seconds, sec)
	}
	e.items[sec] = append(list, it)
}

// take removes one item whose second has passed at ms.
func (e *expiry) take(ms int64) (item, bool) {
	if len(e.seconds) == 0 || e.seconds[0]*1000 > ms {
		return item{}, false
	}
	sec := e.seconds[0]
	list := e.items[sec]
	it := list[len(list)-1]
	if list = list[:len(list)-1]; len(list) > 0 {
		e.items[sec] = list
	} else {
		delete(e.items, sec)
		heap.Pop(&e.seconds)
	}
	return it, true
}

// minHeap implements heap.Interface.
type minHeap[T cmp.Ordered] []T

func (h minHeap[T]) Len() int           { return len(h) }
func (h minHeap[T]) Less(i, j int) bool { return h[i] < h[j] }
func (h minHeap[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *minHeap[T]) Push(v any)        { *h = append(*h, v.(T)) }
func (h *minHeap[T]) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}
