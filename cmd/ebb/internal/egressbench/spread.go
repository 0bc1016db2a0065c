package egressbench

import "context"

// perBox is how many connections a box has at one time, perTask how many of them a task has
// here: of all connections that there can be it has no more than its part.
const (
	perBox  = 64
	perTask = 4 * perBox
)

// spread is tasks and boxes enough for many connections.
type spread []*task

// spread opens them for n connections. On an error none is open.
func (b *run) spread(ctx context.Context, n int) (spread, error) {
	var s spread
	for left := n; left > 0; left -= perTask {
		t, err := b.people.open(ctx, (min(left, perTask)+perBox-1)/perBox)
		if err != nil {
			s.end(ctx)
			return nil, err
		}
		s = append(s, t)
	}
	return s, nil
}

// at is the task of a connection, and its box.
func (s spread) at(i int) (*task, tunnelBox) {
	t := s[i/perTask]
	return t, t.boxes[i%perTask/perBox]
}

func (s spread) end(ctx context.Context) {
	for _, t := range s {
		t.end(ctx)
	}
}
