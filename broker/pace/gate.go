package pace

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrFull means that the Gate had no free slot within the waiting time.
var ErrFull = errors.New("too many calls at one time")

// Gate limits the number of concurrent calls. Each call has a name, such as that of its
// task. The calls of one name get at most half of the slots, and at most half of the queue,
// so that one task cannot block another.
type Gate struct {
	size int

	mu      sync.Mutex
	busy    int
	holding map[string]int
	queue   []*waiter
	queued  map[string]int
}

type waiter struct {
	name string
	in   chan struct{} // closed when the waiter has a slot
}

// waitingPerPlace is the length of the queue for each slot.
const waitingPerPlace = 4

// NewGate returns a Gate with size slots, at least one.
func NewGate(size int) *Gate {
	return &Gate{size: max(size, 1), holding: map[string]int{}, queued: map[string]int{}}
}

// share returns half of n, at least 1.
func share(n int) int { return max(n/2, 1) }

// TryEnter takes a slot for a call of this name. It returns the function that frees the slot, which the
// caller must call once, or nil if no slot is free for that name.
func (g *Gate) TryEnter(name string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enter(name)
}

// enter is TryEnter for a caller that holds mu.
func (g *Gate) enter(name string) (leave func()) {
	if !g.admits(name) {
		return nil
	}
	g.take(name)
	return g.leave(name)
}

// Enter waits for a slot until ctx is done. The caller must call leave once. Every error is
// ErrFull.
func (g *Gate) Enter(ctx context.Context, name string) (leave func(), err error) {
	g.mu.Lock()
	if leave := g.enter(name); leave != nil {
		g.mu.Unlock()
		return leave, nil
	}
	if room := g.size * waitingPerPlace; len(g.queue) >= room || g.queued[name] >= share(room) {
		g.mu.Unlock()
		return nil, ErrFull
	}
	w := &waiter{name: name, in: make(chan struct{})}
	g.queue = append(g.queue, w)
	g.queued[name]++
	g.mu.Unlock()
	select {
	case <-w.in:
		return g.leave(name), nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, w); i >= 0 {
		g.drop(i)
		return nil, ErrFull
	}
	return g.leave(name), nil // a slot became free at the same moment
}

func (g *Gate) admits(name string) bool { return g.busy < g.size && g.holding[name] < share(g.size) }

func (g *Gate) take(name string) {
	g.busy++
	g.holding[name]++
}

func (g *Gate) drop(i int) {
	w := g.queue[i]
	g.queue = slices.Delete(g.queue, i, i+1)
	less(g.queued, w.name)
}

func (g *Gate) leave(name string) func() {
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.busy--
		less(g.holding, name)
		// The slot goes to the longest-waiting call whose name has less than its share.
		if i := slices.IndexFunc(g.queue, func(w *waiter) bool { return g.admits(w.name) }); i >= 0 {
			w := g.queue[i]
			g.drop(i)
			g.take(w.name)
			close(w.in)
		}
	})
}

// less decrements a count and removes a name whose count is zero. Names come from callers,
// so they must not accumulate in memory.
func less(counts map[string]int, name string) {
	if counts[name]--; counts[name] <= 0 {
		delete(counts, name)
	}
}
