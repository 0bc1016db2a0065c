package broker

import "sync"

// maxHolds bounds the connections that one task may hold at this process.
const maxHolds = 4

// holds are the connections of this process, by task, that are open or in their
// grace. What it says of one: whether it was noted in the ledger, and whether a later
// one was after it, so that its end says nothing.
type holds struct {
	mu sync.Mutex
	of map[string]map[*Hold]holdState
}

type holdState struct{ noted, past bool }

// enter gives those that were noted before this one is.
func (h *holds) enter(x *Hold) (earlier []*Hold, may bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := h.of[x.task.ID]
	if len(mine) >= maxHolds {
		return nil, false
	}
	if mine == nil {
		mine = map[*Hold]holdState{}
		h.of[x.task.ID] = mine
	}
	for other, s := range mine {
		if s.noted {
			earlier = append(earlier, other)
		}
	}
	mine[x] = holdState{}
	return earlier, true
}

// noted says that x was noted in the ledger, after those earlier.
func (h *holds) noted(x *Hold, earlier []*Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := h.of[x.task.ID]
	mine[x] = holdState{noted: true}
	for _, other := range earlier {
		if s, on := mine[other]; on && !s.past {
			mine[other] = holdState{noted: true, past: true}
			close(other.later)
		}
	}
}

func (h *holds) past(x *Hold) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[x.task.ID][x].past
}

func (h *holds) leave(x *Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of[x.task.ID], x)
	if len(h.of[x.task.ID]) == 0 {
		delete(h.of, x.task.ID)
	}
}
