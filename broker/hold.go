package broker

import (
	"context"
	"errors"
	"time"

	"ebb/attest"
	"ebb/broker/audit"
)

// Hold is a connection that a sandbox keeps open: its end is the sandbox's, unless
// the sandbox is back within its grace, here or at another replica.
//
// A replica that ends, in whatever way, ends nobody: the sandbox connects again.
// Should both be gone at once, the runner's heartbeat and the deadline remain.
type Hold struct {
	b     *Broker
	task  Task
	id    string
	grace time.Duration

	losses int64         // of the ledger when this was noted there
	later  chan struct{} // closed when the sandbox holds a later connection here
}

// MaxGrace is the longest that a sandbox may take to come back.
const MaxGrace = time.Minute

// Hold begins to watch a sandbox by its connection.
func (b *Broker) Hold(ctx context.Context, s Subject, p Possession, grace time.Duration) (*Hold, error) {
	if grace < 0 || grace > MaxGrace {
		return nil, E(Invalid, "grace_seconds must be 0 to 60.", nil)
	}
	a, err := b.ask(ctx, toMint, s, p)
	if err != nil {
		return nil, err
	}
	if a.live.State == TaskClosed {
		return nil, closedError()
	}
	h := &Hold{b: b, task: a.live.Task, id: newID("hld_"), grace: grace, later: make(chan struct{})}
	h.task.Sandbox = &a.sandbox
	earlier, may := b.holds.enter(h)
	if !may {
		return nil, E(Conflict, "The task holds too many connections. One is enough.", nil)
	}
	if err := h.claim(ctx); err != nil {
		h.Release()
		return nil, unavailable(err)
	}
	b.holds.noted(h, earlier)
	b.note(ctx, b.taskEntry(audit.SandboxHeld, a.sandbox.ID, a.live.ID, map[string]any{"grace_seconds": int(grace.Seconds())}))
	return h, nil
}

// claim makes this connection the one whose end counts: an earlier one's counts no
// more. What is there is taken out first: whoever looks at it meanwhile, because an
// earlier one ended, would put it back over this one.
func (h *Hold) claim(ctx context.Context) error {
	until, ledger := h.task.Deadline.Add(MaxGrace), h.b.cfg.Ledger
	h.losses = ledger.Losses()
	_, err := ledger.Admit(ctx, Admission{Claims: []Claim{{Key: "held:" + h.task.ID, Value: "1", Until: until}}})
	for look := 0; errors.Is(err, ErrClaimed) && look < maxLooks; look++ {
		_, terr := ledger.Take(ctx, holdKey(h.task.ID))
		switch {
		case terr == nil:
			err = nil
		case !errors.Is(terr, ErrNotFound):
			return terr
		case !sleep(ctx, lookPause):
			return ctx.Err()
		}
	}
	if err != nil && !errors.Is(err, ErrClaimed) {
		return err
	}
	return ledger.Put(ctx, holdKey(h.task.ID), h.id, until)
}

// A look at the ledger is given maxLooks pauses to put back what it took: a process
// that died in between never does.
const (
	maxLooks  = 10
	lookPause = 100 * time.Millisecond
)

func holdKey(taskID string) string { return "hold:" + taskID }

// Renew notes the connection again in a ledger that has lost something: else the
// end of an earlier one, which finds nothing there, would be taken for the sandbox's.
// Call it every second or so while the connection is open.
func (h *Hold) Renew(ctx context.Context) {
	n := h.b.cfg.Ledger.Losses()
	if n == h.losses || h.b.holds.past(h) {
		return
	}
	if err := h.b.cfg.Ledger.Put(ctx, holdKey(h.task.ID), h.id, h.task.Deadline.Add(MaxGrace)); err == nil {
		h.losses = n
	}
}

// TaskID is the task of the sandbox.
func (h *Hold) TaskID() string { return h.task.ID }

// Over says that the task has ended.
func (h *Hold) Over() bool { return h.b.tombs.has(h.task.ID, h.b.now()) }

// Release ends the watch and nothing else: this process is about to end, or the
// task has ended.
func (h *Hold) Release() { h.b.holds.leave(h) }

// Lost says that the connection is gone. What follows does not hold up the caller,
// and nothing does after EndGraces or once the broker has ended.
func (h *Hold) Lost(ctx context.Context) {
	at := h.b.now()
	if !h.b.sequels.begin(context.WithoutCancel(ctx), func(ctx context.Context) {
		defer h.Release()
		t := time.NewTimer(h.grace)
		defer t.Stop()
		select {
		case <-h.later:
			return
		case <-h.b.sequels.away.Done():
			return
		case <-t.C:
		}
		// Of a grace of 0 both are true at once.
		if h.b.sequels.away.Err() != nil || h.Over() || h.b.holds.past(h) || h.replaced(ctx) {
			return
		}
		h.b.died(ctx, h.task, attest.Death{At: at, How: "connection_closed"})
	}) {
		h.Release()
	}
}

// replaced says whether the sandbox holds a later connection. A ledger that cannot
// say is asked again; one that has forgotten leaves this as the last that is known.
func (h *Hold) replaced(ctx context.Context) bool {
	missing := 0
	for wait := 100 * time.Millisecond; !h.Over() && ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		last, err := h.look(ctx)
		switch {
		case err == nil && last == h.id:
			return false
		case err == nil:
			// Another's. It goes back for when that one ends; whoever looks meanwhile
			// finds nothing, and looks again.
			if err = h.putBack(ctx, last); err != nil {
				h.b.cfg.Logger.WarnContext(ctx, "a control connection that replaced another could not be noted; its end may be taken for the first one's", "task_id", h.task.ID, "error", err)
			}
			return true
		case errors.Is(err, ErrNotFound):
			if missing++; missing > maxMissing {
				return false
			}
		}
		if !sleep(ctx, wait) {
			return true
		}
	}
	return true
}

// look takes out what the ledger has. What it took may not get lost on the way, so
// that the end of the broker does not interrupt it.
func (h *Hold) look(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTime)
	defer cancel()
	return h.b.cfg.Ledger.Take(ctx, holdKey(h.task.ID))
}

// putBack puts back what look took. Who connects waits for that no longer than
// maxLooks pauses: who is late with it would put it over a later connection, and
// waits for that one's note as long. What it finds is later than what it has.
func (h *Hold) putBack(ctx context.Context, last string) error {
	var err error
	for range 3 {
		put, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxLooks*lookPause/2)
		err = h.b.cfg.Ledger.Put(put, holdKey(h.task.ID), last, h.task.Deadline.Add(MaxGrace))
		cancel()
		if err == nil {
			return nil
		}
		for range maxLooks {
			if later, lerr := h.look(ctx); lerr == nil {
				last = later
				break
			}
			if !sleep(ctx, lookPause) {
				break
			}
		}
	}
	return err
}

// maxMissing is how often nothing is found: long enough for those whose connection
// lives to note it again after a loss (Renew).
const maxMissing = 5
