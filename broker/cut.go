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
	// End is told of each task that is over, and of each lease that was ended before its
	// time, wherever that was done.
	End(id string)
	// MayHaveOpened is told once of each such lease, after End: an SSH connection of its task may have
	// been opened with it, and nobody but its two ends knows.
	MayHaveOpened(taskID, leaseID string)
	// Pause is told of a task that uses nothing until it is resumed.
	Pause(taskID string)
	// Doubt is told that nobody can say what has ended meanwhile.
	Doubt()
}

// cutting tells a Cutter, once there is one.
type cutting struct {
	cutter       atomic.Pointer[Cutter]
	ledger, feed listening
}

// Cut makes c hear of every end from now on. Call it once, before anything goes on.
func (b *Broker) Cut(c Cutter) { b.cuts.cutter.Store(&c) }

func (c *cutting) tell(do func(Cutter)) {
	if to := c.cutter.Load(); to != nil {
		do(*to)
	}
}

// ended refuses a task, or a lease that nobody got, in this process from now on, and cuts what goes
// on by it.
func (b *Broker) ended(id string, until time.Time) {
	b.tombs.add(id, until)
	b.cuts.tell(func(c Cutter) { c.End(id) })
}

// endedInUse does so with a lease that somebody can have used.
func (b *Broker) endedInUse(taskID, id string, until time.Time) {
	first := b.tombs.add(id, until)
	b.cuts.tell(func(c Cutter) {
		if c.End(id); first {
			c.MayHaveOpened(taskID, id)
		}
	})
}

// heard follows an event that any replica published.
func (b *Broker) heard(ctx context.Context, e Event) {
	switch e.LeaseID {
	case "":
		b.ended(e.TaskID, e.Until)
	case PauseMark:
		b.paused(ctx, e.TaskID)
	default:
		b.endedInUse(e.TaskID, e.LeaseID, e.Until)
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

// Silence is the longest that anything goes on without word that it may: when the ledger
// or its feed has not answered for so long, everything is cut, and again for as long as
// that lasts (I6). Another replica could have ended it meanwhile.
const Silence = 3 * time.Second

// feedWait is how long one look at the feed waits for something to be told. Several fit
// into Silence, so that one that is slow cuts nothing.
const feedWait = Silence / 6

// listening is what is heard of one source: what an answer says was so when it was asked
// for.
type listening struct {
	mu sync.Mutex
	t  *time.Timer
}

// begin expects word of a source from now on, and calls silent each time that none has
// come for Silence. end stops that.
func (l *listening) begin(silent func()) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := false
	l.t = time.AfterFunc(Silence, func() {
		l.mu.Lock()
		if !ended {
			l.t.Reset(Silence)
		}
		l.mu.Unlock()
		silent()
	})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		ended = true
		l.t.Stop()
	}
}

// heard says that a source has answered what it was asked at a moment.
func (l *listening) heard(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := Silence - time.Since(asked); l.t != nil && left > 0 && l.t.Stop() {
		l.t.Reset(left)
	}
}

// runLedger follows the ledger and its feed, and cuts everything when one of them is
// silent, until ctx is done.
func (b *Broker) runLedger(ctx context.Context, spawn func(func() error)) {
	silent := func(what string) func() {
		return func() {
			b.cfg.Logger.ErrorContext(ctx, "nobody says what has ended: all that goes on through egress is cut", "silent", what, "for", Silence.String())
			b.cuts.tell(Cutter.Doubt)
		}
	}
	ledger, feed := b.cuts.ledger.begin(silent("ledger")), b.cuts.feed.begin(silent("feed"))
	spawn(func() error { return b.follow(ctx) })
	spawn(func() error { return every(ctx, time.Second, b.watch) })
	spawn(func() error {
		<-ctx.Done()
		ledger()
		feed()
		return ctx.Err()
	})
}
