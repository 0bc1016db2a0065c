package egress

import (
	"context"
	"errors"
	"sync"
	"time"
)

// askTime is how long an SSH connection goes on while nobody says whether a lease that was ended is
// one that it may have been opened with.
const askTime = 500 * time.Millisecond

var errEndedBy = errors.New("egress: a credential is over by which the connection may have been opened")

// piped are the SSH connections that are under way, by their task. Each may have been opened with
// any certificate of the box's for its host, also with one that was issued while it was.
type piped struct {
	mu sync.Mutex
	of map[string]map[*sending]struct{}
}

// add has a connection asked after when a lease of its task is ended, until done.
func (o *piped) add(s *sending) (done func()) {
	task := s.b.who.TaskID
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]map[*sending]struct{}{}
	}
	if o.of[task] == nil {
		o.of[task] = map[*sending]struct{}{}
	}
	o.of[task][s] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if delete(o.of[task], s); len(o.of[task]) == 0 {
			delete(o.of, task)
		}
	}
}

// all are the connections of a task.
func (o *piped) all(task string) (out []*sending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.of[task] {
		out = append(out, s)
	}
	return out
}

// MayHaveOpened cuts the SSH connections of a task that a lease which was ended may have opened, and all of
// them when nobody can say which those are. It does not wait for that.
func (p *Proxy) MayHaveOpened(taskID, leaseID string) {
	all := p.piped.all(taskID)
	if len(all) == 0 {
		return
	}
	go func() {
		ctx, done := context.WithTimeout(context.Background(), askTime)
		defer done()
		in, err := p.cfg.Hosts.MayHaveReached(ctx, leaseID)
		for _, s := range all {
			if err != nil || in(s.b.who, s.host) {
				s.cut(errEndedBy)
			}
		}
	}()
}
