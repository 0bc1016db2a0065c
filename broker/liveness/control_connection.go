package liveness

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Connections watches sandboxes by the control connection that they keep open.
type Connections struct {
	liveStore  broker.LiveStore
	logger     *slog.Logger
	revoked    *kernel.RevokedSet
	background *kernel.Background

	callers   callers
	clock     *kernel.Timekeeper
	log       *kernel.Recorder
	sandboxes *SandboxWatch

	Holds holds
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (c *Connections) Open() {
	c.Holds = holds{Of: map[string]map[*Hold]holdState{}}
}

// Hold is a control connection: a connection that a sandbox keeps open. Its end counts as the
// sandbox's exit, unless the sandbox reconnects within the grace period, to this or another
// replica.
//
// The end of a replica ends no sandbox's task: the sandbox connects to another one. If both end
// at once, the runner's heartbeat and the deadline still end the task.
type Hold struct {
	b     *Connections
	task  broker.Task
	id    string
	grace time.Duration

	losses int64         // of the live store when the connection was noted there
	later  chan struct{} // closed when the sandbox has a later connection here
}

// MaxGrace is the longest grace period for reconnecting.
const MaxGrace = time.Minute

// Hold starts to watch a sandbox by its control connection.
func (c *Connections) Hold(ctx context.Context, s broker.Subject, p broker.Possession, grace time.Duration) (*Hold, error) {
	if grace < 0 || grace > MaxGrace {
		return nil, broker.E(broker.Invalid, "grace_seconds must be 0 to 60.", nil)
	}
	a, err := c.callers.Ask(ctx, kernel.ToMint, s, p)
	if err != nil {
		return nil, err
	}
	if a.Live.State == broker.TaskClosed {
		return nil, kernel.ClosedError(a.Live.Task)
	}
	h := &Hold{b: c, task: a.Live.Task, id: broker.NewID("hld_"), grace: grace, later: make(chan struct{})}
	h.task.Sandbox = &a.Sandbox
	earlier, may := c.Holds.enter(h)
	if !may {
		return nil, broker.E(broker.Conflict, "The task has 4 control connections to this replica already. One is enough: close the others.", nil)
	}
	if err := h.claim(ctx); err != nil {
		h.Release()
		return nil, broker.StoreError(err)
	}
	c.Holds.noted(h, earlier)
	c.log.Note(ctx, c.log.TaskEntry(audit.SandboxHeld, a.Sandbox.ID, a.Live.ID, map[string]any{"grace_seconds": int(grace.Seconds())}))
	return h, nil
}

// claim makes this connection the current one, so that the end of an earlier one has no effect.
// It takes the stored id out first: a concurrent look by an earlier connection would otherwise
// put the earlier id back over this one.
func (h *Hold) claim(ctx context.Context) error {
	until, liveStore := h.task.Deadline.Add(MaxGrace), h.b.liveStore
	h.losses = liveStore.Losses()
	_, err := liveStore.Admit(ctx, broker.Admission{Claims: []broker.Claim{{Key: "held:" + h.task.ID, Value: "1", Until: until}}})
	for look := 0; errors.Is(err, broker.ErrClaimed) && look < maxLooks; look++ {
		_, terr := liveStore.Take(ctx, holdKey(h.task.ID))
		switch {
		case terr == nil:
			err = nil
		case !errors.Is(terr, broker.ErrNotFound):
			return terr
		case !kernel.Sleep(ctx, lookPause):
			return ctx.Err()
		}
	}
	if err != nil && !errors.Is(err, broker.ErrClaimed) {
		return err
	}
	return liveStore.Put(ctx, holdKey(h.task.ID), h.id, until)
}

// claim waits up to maxLooks pauses for another process to put back the id that it took: a
// process that died in between never does.
const (
	maxLooks  = 10
	lookPause = 100 * time.Millisecond
)

func holdKey(taskID string) string { return "hold:" + taskID }

// Renew notes the connection again in a live store that has lost data. Otherwise the end of an
// earlier connection would find nothing there and count as the sandbox's exit. Call it about
// every second while the connection is open.
func (h *Hold) Renew(ctx context.Context) {
	n := h.b.liveStore.Losses()
	if n == h.losses || h.b.Holds.past(h) {
		return
	}
	if err := h.b.liveStore.Put(ctx, holdKey(h.task.ID), h.id, h.task.Deadline.Add(MaxGrace)); err == nil {
		h.losses = n
	}
}

// TaskID returns the id of the sandbox's task.
func (h *Hold) TaskID() string { return h.task.ID }

// Over reports whether the task has ended.
func (h *Hold) Over() bool { return h.b.revoked.Has(h.task.ID, h.b.clock.Now()) }

// Release stops the watch without an effect on the task, because this process or the task is
// about to end.
func (h *Hold) Release() { h.b.Holds.leave(h) }

// Lost reports that the connection has broken. The grace period and the exit action run in the
// background, and not after EndGraces or the end of the broker.
func (h *Hold) Lost(ctx context.Context) {
	at := h.b.clock.Now()
	if !h.b.background.Begin(context.WithoutCancel(ctx), func(ctx context.Context) {
		defer h.Release()
		t := time.NewTimer(h.grace)
		defer t.Stop()
		select {
		case <-h.later:
			return
		case <-h.b.background.Away.Done():
			return
		case <-t.C:
		}
		// With a grace of 0 several cases of the select are ready at once.
		if h.b.background.Away.Err() != nil || h.Over() || h.b.Holds.past(h) || h.replaced(ctx) {
			return
		}
		h.b.sandboxes.exited(ctx, h.task, attest.Exit{At: at, How: "connection_closed"})
	}) {
		h.Release()
	}
}

// replaced reports whether the sandbox has a later connection. While the live store does not
// answer it is asked again. If it has lost the id, this connection counts as the last one.
func (h *Hold) replaced(ctx context.Context) bool {
	missing := 0
	for wait := 100 * time.Millisecond; !h.Over() && ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		last, err := h.look(ctx)
		switch {
		case err == nil && last == h.id:
			return false
		case err == nil:
			// A later connection's id. Put it back for that one's end; a concurrent look
			// finds nothing and tries again.
			if err = h.putBack(ctx, last); err != nil {
				h.b.logger.WarnContext(ctx, "the id of a later control connection could not be put back; the end of that connection may not be recognised as the last one's", "task_id", h.task.ID, "error", err)
			}
			return true
		case errors.Is(err, broker.ErrNotFound):
			if missing++; missing > maxMissing {
				return false
			}
		}
		if !kernel.Sleep(ctx, wait) {
			return true
		}
	}
	return true
}

// look takes the id out of the live store. It is not interrupted by the end of the broker,
// because the id would be lost.
func (h *Hold) look(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), kernel.LiveStoreTime)
	defer cancel()
	return h.b.liveStore.Take(ctx, holdKey(h.task.ID))
}

// putBack puts back the id that look took. A new connection waits for that at most maxLooks
// pauses, so a late write could replace the id of a later connection. After a failed write it
// therefore looks for such an id for the same time, and puts that back instead.
func (h *Hold) putBack(ctx context.Context, last string) error {
	var err error
	for range 3 {
		put, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxLooks*lookPause/2)
		err = h.b.liveStore.Put(put, holdKey(h.task.ID), last, h.task.Deadline.Add(MaxGrace))
		cancel()
		if err == nil {
			return nil
		}
		for range maxLooks {
			if later, lerr := h.look(ctx); lerr == nil {
				last = later
				break
			}
			if !kernel.Sleep(ctx, lookPause) {
				break
			}
		}
	}
	return err
}

// maxMissing is how often the id may be missing. It gives the live connections time to note it
// again after a loss (Renew).
const maxMissing = 5

// maxHolds is the largest number of control connections of one task to this process.
const maxHolds = 4

// holds tracks the connections of this process, by task, that are open or in their grace
// period. For each it stores whether it was noted in the live store, and whether a later one
// was noted after it, so that its end has no effect.
type holds struct {
	Mu sync.Mutex
	Of map[string]map[*Hold]holdState
}

type holdState struct{ noted, past bool }

// enter adds x, and returns the connections that were noted before it.
func (h *holds) enter(x *Hold) (earlier []*Hold, may bool) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	mine := h.Of[x.task.ID]
	if len(mine) >= maxHolds {
		return nil, false
	}
	if mine == nil {
		mine = map[*Hold]holdState{}
		h.Of[x.task.ID] = mine
	}
	for other, s := range mine {
		if s.noted {
			earlier = append(earlier, other)
		}
	}
	mine[x] = holdState{}
	return earlier, true
}

// noted marks x as noted in the live store after the connections in earlier.
func (h *holds) noted(x *Hold, earlier []*Hold) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	mine := h.Of[x.task.ID]
	mine[x] = holdState{noted: true}
	for _, other := range earlier {
		if s, on := mine[other]; on && !s.past {
			mine[other] = holdState{noted: true, past: true}
			close(other.later)
		}
	}
}

func (h *holds) past(x *Hold) bool {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.Of[x.task.ID][x].past
}

func (h *holds) leave(x *Hold) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	delete(h.Of[x.task.ID], x)
	if len(h.Of[x.task.ID]) == 0 {
		delete(h.Of, x.task.ID)
	}
}
