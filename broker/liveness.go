package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/attest"
)

// Sequel is what follows when a sandbox is gone, or has not shown in time that it
// is still what it was.
type Sequel string

// Sequels. Nothing is what a zero Sequel means after a lapse: minting has stopped
// by itself. After a death it means Complete.
const (
	SequelNothing  Sequel = "nothing"
	SequelPause    Sequel = "pause"    // nothing mints until its runner resumes the task; live tokens stay
	SequelComplete Sequel = "complete" // the task ends, and every credential with it
)

// Liveness is how long the evidence of one attestor is believed, and what follows.
type Liveness struct {
	// OnDeath is what follows when its attestor sees a sandbox die, or its control
	// connection ends (Hold); "" = complete.
	OnDeath Sequel
	// Reattest is how long a sandbox may go on without fresh evidence; 0 = as long
	// as its evidence says. After it nothing mints until it enrols again, with the
	// key that the task knows.
	Reattest time.Duration
	// OnLapse is what follows when it has not, "" = nothing more.
	OnLapse Sequel
}

func (l Liveness) check(name string) error {
	switch {
	case !slices.Contains([]Sequel{"", SequelNothing, SequelPause, SequelComplete}, l.OnDeath):
		return fmt.Errorf("attestor %s: on_death is complete, pause or nothing", name)
	case !slices.Contains([]Sequel{"", SequelNothing, SequelComplete}, l.OnLapse):
		return fmt.Errorf("attestor %s: on_lapse is complete or nothing", name)
	case l.OnLapse == SequelComplete && l.Reattest == 0:
		return fmt.Errorf("attestor %s: on_lapse needs reattest", name)
	case l.Reattest < 0 || l.Reattest > 0 && l.Reattest < MinReattest:
		return fmt.Errorf("attestor %s: reattest is %s at least", name, MinReattest)
	case l.Reattest > 0 && name == enrollName:
		return fmt.Errorf("attestor %s: a ticket serves once, so that nobody could attest again: leave out reattest", name)
	}
	return nil
}

// MinReattest is the shortest interval of re-attestation that leaves time for it.
const MinReattest = 10 * time.Second

// runWatches watches the sandboxes of tasks that are not closed, where the
// attestor can. Each replica watches all that it sees: the first that notices
// ends the task, and ending is idempotent.
func (b *Broker) runWatches(ctx context.Context) error {
	if !b.watches() && !b.lapses() {
		return nil
	}
	defer b.sandboxes.stopAll()
	tick := time.NewTicker(rewatch)
	defer tick.Stop()
	b.watchOpen(ctx)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case id := <-b.sandboxes.newcomers:
			if t, err := b.taskByID(ctx, id); err == nil {
				b.watchSandbox(ctx, t)
			}
		case <-tick.C:
			b.watchOpen(ctx)
		}
	}
}

// rewatch is how often a replica looks for sandboxes that others took in, and for
// those that have lapsed.
const rewatch = 10 * time.Second

// watches reports whether any attestor sees sandboxes die.
func (b *Broker) watches() bool {
	for name := range b.cfg.Attestors {
		if b.watcher(name) != nil {
			return true
		}
	}
	return false
}

// watcher is the attestor of that name when deaths that it sees have a sequel.
func (b *Broker) watcher(name string) attest.Watcher {
	w, _ := b.cfg.Attestors[name].(attest.Watcher)
	if b.cfg.Liveness[name].OnDeath == SequelNothing {
		return nil
	}
	return w
}

// arrived says that a task has got its sandbox here.
func (b *Broker) arrived(taskID, attestor string) {
	if b.watcher(attestor) == nil {
		return
	}
	select {
	case b.sandboxes.newcomers <- taskID:
	default: // watchOpen finds it
	}
}

// watchOpen goes through all tasks that are not closed: it watches what is new and
// lets go of what has ended.
func (b *Broker) watchOpen(ctx context.Context) {
	open := map[string]bool{}
	page := Page{Limit: 1000}
	var ends errgroup.Group
	ends.SetLimit(maxLapsing)
	defer ends.Wait() //nolint:errcheck // they log what fails
	for {
		tasks, err := b.cfg.Journal.Tasks(ctx, TaskFilter{Open: true, Page: page})
		if err != nil {
			b.cfg.Logger.WarnContext(ctx, "open tasks could not be read; their sandboxes are watched as before", "error", err)
			return
		}
		for _, t := range tasks {
			if t.Sandbox == nil {
				continue
			}
			open[t.ID] = true
			b.watchSandbox(ctx, t)
			if b.mayHaveLapsed(ctx, t) {
				ends.Go(func() error { b.lapse(ctx, t); return nil })
			}
		}
		if len(tasks) < page.Limit {
			break
		}
		page.After = tasks[len(tasks)-1].ID
	}
	b.sandboxes.keep(open)
	b.vouched.keep(open)
}

func (b *Broker) watchSandbox(ctx context.Context, t Task) {
	if t.Sandbox == nil || t.State == TaskClosed {
		return
	}
	w := b.watcher(t.Sandbox.Attestor)
	if w == nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	if !b.sandboxes.add(t.ID, stop) {
		stop()
		return
	}
	watched := b.m.watched.WithLabelValues(t.Sandbox.Attestor)
	watched.Inc()
	if !b.sequels.begin(ctx, func(ctx context.Context) {
		defer watched.Dec()
		defer stop()
		b.watchOne(ctx, w, t)
	}) {
		watched.Dec()
		stop()
	}
}

// watchOne returns when the sandbox is gone and that has had its sequel, or the
// watch is over.
func (b *Broker) watchOne(ctx context.Context, w attest.Watcher, t Task) {
	s := t.Sandbox
	id := attest.Identity{Attestor: s.Attestor, Subject: s.Subject, Class: attest.Class(s.Class), Selectors: s.Selectors}
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		began := time.Now()
		death, err := safely(func() (attest.Death, error) { return w.Watch(ctx, id) })
		if time.Since(began) > 2*wait { // it worked for a while
			wait = time.Second
		}
		switch {
		case err == nil:
			b.died(ctx, t, death)
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, attest.ErrElsewhere):
			b.sandboxes.away(t.ID)
			return
		}
		b.m.unwatched.WithLabelValues(s.Attestor).Inc()
		b.cfg.Logger.WarnContext(ctx, "a sandbox could not be watched; trying again", "task_id", t.ID, "attestor", s.Attestor, "error", err)
		if !sleep(ctx, wait/2+rand.N(wait)) {
			return
		}
	}
}
