package broker

import (
	"context"
	"sync"
	"time"
)

const (
	// laneRound is how often a lane looks for what became due without a nudge.
	laneRound = time.Second
	// lanePause is the least time between two looks: nudges come in floods.
	lanePause = 20 * time.Millisecond
	// callTime bounds one call of the lane at a provider.
	callTime = 15 * time.Second
	// claimTime is how long a lease stays with the process that took it: a wait for
	// a free call, the call, a probe, and the write. A process that dies keeps it
	// from the others for so long.
	claimTime = 90 * time.Second
	// claimsPerCall is how many leases are claimed for each call, so that no call
	// waits for the journal.
	claimsPerCall = 3
	// laneGrace is how long calls under way may go on when the broker stops.
	laneGrace = 5 * time.Second
)

// lane works on what is owed at one provider, for as long as ctx lives. A provider
// that hangs holds up nothing but its own lane, and policy, audit and mints do not
// come into it at all (I6).
func (b *Broker) lane(ctx context.Context, u *upstream) error {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var works sync.WaitGroup
	t := time.NewTicker(laneRound)
	defer t.Stop()
	for ctx.Err() == nil {
		b.takeDue(ctx, u, func(c Claimed) { works.Go(func() { b.work(working, u, c) }) })
		pause := time.NewTimer(lanePause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-u.wake:
		}
	}
	grace := time.AfterFunc(laneGrace, stop)
	defer grace.Stop()
	works.Wait()
	return ctx.Err()
}

// takeDue claims as many due leases as can be worked on soon.
func (b *Broker) takeDue(ctx context.Context, u *upstream, work func(Claimed)) {
	for ctx.Err() == nil {
		now := b.now()
		n := b.room(u, now)
		if n <= 0 {
			return
		}
		look, cancel := context.WithTimeout(ctx, 5*time.Second)
		cs, err := b.cfg.Journal.Take(look, u.name, now, now.Add(claimTime), n)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				b.cfg.Logger.WarnContext(ctx, "what is owed at a provider could not be read", "provider", u.name, "error", err)
			}
			return
		}
		for _, c := range cs {
			u.claims <- struct{}{} // never waits: the lane alone fills it
			work(c)
		}
		if len(cs) < n {
			return
		}
	}
}

// room is how many leases to claim now. Few are not worth a look as long as others
// are under way; of a provider that seems to be down, one finds out.
func (b *Broker) room(u *upstream, now time.Time) int {
	under := len(u.claims)
	free := cap(u.claims) - under
	switch {
	case u.quiet.left(now) > 0 || !u.ending.Retry(now).IsZero():
		return 0
	case u.ending.Probing(now):
		if under > 0 {
			return 0
		}
		return 1
	case under > 0 && free < u.Parallel:
		return 0
	}
	return free
}

// bells tell who waits for the end of a task's credentials that one has come.
type bells struct {
	mu sync.Mutex
	m  map[string]*bell // by task
}

type bell struct {
	rung    chan struct{} // closed at the next ring
	hearers int
}

// hear returns a channel that is closed at the next ring for the task. forget must
// be called.
func (r *bells) hear(taskID string) (rung <-chan struct{}, forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[string]*bell{}
	}
	bl := r.m[taskID]
	if bl == nil {
		bl = &bell{rung: make(chan struct{})}
		r.m[taskID] = bl
	}
	bl.hearers++
	return bl.rung, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if bl.hearers--; bl.hearers == 0 && r.m[taskID] == bl {
			delete(r.m, taskID)
		}
	}
}

func (r *bells) ring(taskID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bl := r.m[taskID]; bl != nil {
		close(bl.rung)
		delete(r.m, taskID)
	}
}
