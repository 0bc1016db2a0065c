package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Cutter holds what goes on by tasks and leases in this process, above all egress
// streams: what ends is cut, not left to end by itself (I2). Its methods return soon
// and are safe for concurrent use; hearing of an end twice is harmless.
type Cutter interface {
	// End is told of each task and each lease that is over, wherever it was ended.
	End(id string)
	// Pause is told of a task that uses nothing until it is resumed.
	Pause(taskID string)
	// Doubt is told that nobody can say what has ended meanwhile.
	Doubt()
}

// cutting tells a Cutter, once there is one.
type cutting struct {
	mu     sync.Mutex
	cutter atomic.Pointer[Cutter]
	silent time.Time // since when the ledger has not answered; zero = it does
}

// Cut makes c hear of every end from now on. Call it once, before anything goes on.
func (b *Broker) Cut(c Cutter) { b.cuts.cutter.Store(&c) }

func (c *cutting) tell(do func(Cutter)) {
	if to := c.cutter.Load(); to != nil {
		do(*to)
	}
}

// ended refuses a task or a lease in this process from now on, and cuts what goes on by it.
func (b *Broker) ended(id string, until time.Time) {
	b.tombs.add(id, until)
	b.cuts.tell(func(c Cutter) { c.End(id) })
}

// heard follows an event that any replica published.
func (b *Broker) heard(ctx context.Context, e Event) {
	switch e.LeaseID {
	case "":
		b.ended(e.TaskID, e.Until)
	case PauseMark:
		b.paused(ctx, e.TaskID)
	default:
		b.ended(e.LeaseID, e.Until)
	}
}

// paused cuts what goes on by a task, unless it has been resumed: the feed tells old
// pauses again to who begins anew.
func (b *Broker) paused(ctx context.Context, taskID string) {
	live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: taskID})
	if err == nil && live.State == TaskOpen {
		return
	}
	b.cuts.tell(func(c Cutter) { c.Pause(taskID) })
}

// patience is how long the ledger may say nothing before what goes on is cut: another
// replica could have ended it meanwhile.
const patience = 3 * time.Second

// doubt notes whether the ledger answers, and can say what has ended (I6).
func (b *Broker) doubt(err error, lost bool) {
	b.cuts.mu.Lock()
	defer b.cuts.mu.Unlock()
	now := b.now()
	switch {
	case lost: // ends may be among what was lost
		b.cuts.tell(Cutter.Doubt)
	case err == nil:
		b.cuts.silent = time.Time{}
	case b.cuts.silent.IsZero():
		b.cuts.silent = now
	case now.Sub(b.cuts.silent) >= patience:
		b.cuts.tell(Cutter.Doubt)
	}
}
