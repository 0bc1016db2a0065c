package egressbench

import "context"

// perBox is the maximum number of connections of an egress endpoint. perTask is
// the number that a task gets here, so that it stays within its share of all
// connections.
const (
	perBox  = 64
	perTask = 4 * perBox
)

// spread is a set of tasks with enough egress endpoints for many connections.
type spread []*task

// spread opens tasks for n connections. If it fails it closes all of them.
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

// at returns the task and endpoint of a connection.
func (s spread) at(i int) (*task, tunnelBox) {
	t := s[i/perTask]
	return t, t.boxes[i%perTask/perBox]
}

func (s spread) end(ctx context.Context) {
	for _, t := range s {
		t.end(ctx)
	}
}
