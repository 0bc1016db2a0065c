package broker

import (
	"context"
	"sync"
	"time"

	"ebb/attest"
	"ebb/broker/audit"
)

// sequels are what watches sandboxes and follows from their ends. None of it goes on
// once the broker has ended: its stores are closed then, and a sandbox that lives
// cannot come back to it.
type sequels struct {
	mu    sync.Mutex
	over  bool
	n     sync.WaitGroup
	ended context.Context //nolint:containedctx // outlives every call, and ends all of them
	end   context.CancelFunc

	away context.Context //nolint:containedctx // done when no sandbox can come back to this process
	shut context.CancelFunc
}

func newSequels() *sequels {
	s := &sequels{}
	s.ended, s.end = context.WithCancel(context.Background())
	s.away, s.shut = context.WithCancel(s.ended)
	return s
}

// begin does something beside the caller until it is done, or ctx or the broker has
// ended. false: that has it already.
func (s *sequels) begin(ctx context.Context, do func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(s.ended, cancel)
	s.n.Go(func() {
		defer cancel()
		defer unlink()
		do(ctx)
	})
	return true
}

// stop ends them all. What is being written then has sequelGrace for it.
func (s *sequels) stop() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.end()
	done := make(chan struct{})
	go func() { s.n.Wait(); close(done) }()
	grace := time.NewTimer(sequelGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
}

const sequelGrace = 5 * time.Second

// EndGraces says that this process is about to take no more connections: from now on
// a connection that breaks, or broke and is in its grace, ends nobody. What watches
// sandboxes otherwise goes on until Run ends. Call it before the listener is closed.
func (b *Broker) EndGraces() { b.sequels.shut() }

// died is what follows from the end of a sandbox, tried until it has or the task
// is closed: a store that is down keeps nobody alive. When ctx ends it is tried once
// more.
func (b *Broker) died(ctx context.Context, t Task, d attest.Death) {
	now := b.now()
	if d.At.IsZero() || d.At.After(now) {
		d.At = now
	}
	b.m.deaths.WithLabelValues(t.Sandbox.Attestor, d.How).Inc()
	b.m.deathDelay.WithLabelValues(t.Sandbox.Attestor).Observe(now.Sub(d.At).Seconds())
	b.note(ctx, b.taskEntry(audit.SandboxDied, self, t.ID, map[string]any{"sandbox": t.Sandbox.ID, "how": d.How, "at": d.At}))
	b.sequel(ctx, t, b.cfg.Liveness[t.Sandbox.Attestor].OnDeath, CauseExited, d.How)
}

func (b *Broker) sequel(ctx context.Context, t Task, what Sequel, cause Cause, why string) {
	if what == SequelNothing { // a control connection of an attestor whose watches are off
		return
	}
	for wait, more := time.Second, true; ; wait = min(2*wait, time.Minute) {
		done, err := true, error(nil)
		if what == SequelPause {
			done, err = b.pauseDead(ctx, t.ID, why)
		} else {
			_, err = b.close(ctx, t.ID, TaskMove{Cause: cause, By: self, Reason: why})
		}
		if done && err == nil || err != nil && AsError(err).Kind == NotFound {
			return
		}
		if err != nil {
			b.cfg.Logger.ErrorContext(ctx, "what follows from the end of a sandbox could not be done yet", "task_id", t.ID, "error", err)
		}
		if !more {
			return
		}
		more = sleep(ctx, wait)
	}
}

// pauseDead is not done while somebody else's pause lasts: that one stays theirs, and
// whoever ends it need not know that the sandbox is dead.
func (b *Broker) pauseDead(ctx context.Context, taskID, why string) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	t, err := b.taskByID(ctx, taskID)
	if err != nil || t.State != TaskOpen {
		return t.State == TaskClosed || t.PausedBy == self, err
	}
	err = b.setPaused(ctx, Principal{ID: self, Roles: []Role{RoleRunner}}, t, TaskMove{State: TaskPaused, Reason: why})
	return err == nil, err
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
