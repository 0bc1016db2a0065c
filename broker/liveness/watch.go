package liveness

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
)

// SandboxWatch detects sandboxes that exit or miss their re-attestation deadline, and takes the
// configured action (on_sandbox_exit, on_missed_attestation).
type SandboxWatch struct {
	attestors  map[string]attest.Attestor
	store      broker.Store
	liveness   map[string]broker.Liveness
	logger     *slog.Logger
	m          *kernel.Metrics
	background *kernel.Background

	clock   *kernel.Timekeeper
	control *TaskControl
	log     *kernel.Recorder
	revoker revoker
	tasks   tasks

	sandboxes watched
	deadlines evidenceDeadlines
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (sw *SandboxWatch) Open() {
	sw.sandboxes = watched{stops: map[string]context.CancelFunc{}, elsewhere: map[string]bool{}, newcomers: make(chan string, 1024)}
	sw.deadlines = evidenceDeadlines{ends: map[string]evidenceDeadline{}}
}

// RunWatches watches the sandboxes of open and paused tasks whose attestor supports it. Each
// replica watches all sandboxes that it can see; the first one that detects an exit ends the
// task, and ending is idempotent.
func (sw *SandboxWatch) RunWatches(ctx context.Context) error {
	if !sw.watches() && !sw.endsOnMissedAttestation() {
		return nil
	}
	defer sw.sandboxes.stopAll()
	tick := time.NewTicker(rewatch)
	defer tick.Stop()
	sw.WatchOpen(ctx)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case id := <-sw.sandboxes.newcomers:
			if t, err := sw.tasks.TaskByID(ctx, id); err == nil {
				sw.watchSandbox(ctx, t)
			}
		case <-tick.C:
			sw.WatchOpen(ctx)
		}
	}
}

// rewatch is how often a replica looks for sandboxes that enrolled at other replicas, and for
// missed re-attestation deadlines.
const rewatch = 10 * time.Second

// watches reports whether any attestor can detect sandbox exits.
func (sw *SandboxWatch) watches() bool {
	for name := range sw.attestors {
		if sw.watcher(name) != nil {
			return true
		}
	}
	return false
}

// watcher returns the attestor of that name if it detects exits and an action is configured for
// them.
func (sw *SandboxWatch) watcher(name string) attest.Watcher {
	w, _ := sw.attestors[name].(attest.Watcher)
	if sw.liveness[name].OnSandboxExit == broker.ActionNothing {
		return nil
	}
	return w
}

// Arrived announces that a task got its sandbox at this replica.
func (sw *SandboxWatch) Arrived(taskID, attestor string) {
	if sw.watcher(attestor) == nil {
		return
	}
	select {
	case sw.sandboxes.newcomers <- taskID:
	default: // WatchOpen finds it
	}
}

// WatchOpen reads all open and paused tasks. It watches new sandboxes and stops the watches of
// ended tasks.
func (sw *SandboxWatch) WatchOpen(ctx context.Context) {
	open := map[string]bool{}
	page := broker.Page{Limit: 1000}
	var ends errgroup.Group
	ends.SetLimit(maxMissed)
	defer ends.Wait() //nolint:errcheck // they log their failures
	for {
		tasks, err := sw.store.Tasks(ctx, broker.TaskFilter{Open: true, Page: page})
		if err != nil {
			sw.logger.WarnContext(ctx, "open tasks could not be read; their sandboxes are watched as before", "error", err)
			return
		}
		for _, t := range tasks {
			if t.Sandbox == nil {
				continue
			}
			open[t.ID] = true
			sw.watchSandbox(ctx, t)
			if sw.mayHaveMissedAttestation(ctx, t) {
				ends.Go(func() error { sw.endMissed(ctx, t); return nil })
			}
		}
		if len(tasks) < page.Limit {
			break
		}
		page.After = tasks[len(tasks)-1].ID
	}
	sw.sandboxes.keep(open)
	sw.deadlines.keep(open)
}

func (sw *SandboxWatch) watchSandbox(ctx context.Context, t broker.Task) {
	if t.Sandbox == nil || t.State == broker.TaskClosed {
		return
	}
	w := sw.watcher(t.Sandbox.Attestor)
	if w == nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	if !sw.sandboxes.add(t.ID, stop) {
		stop()
		return
	}
	watched := sw.m.Watched.WithLabelValues(t.Sandbox.Attestor)
	watched.Inc()
	if !sw.background.Begin(ctx, func(ctx context.Context) {
		defer watched.Dec()
		defer stop()
		sw.watchOne(ctx, w, t)
	}) {
		watched.Dec()
		stop()
	}
}

// watchOne returns when the sandbox has exited and the action is done, or when the watch ends.
func (sw *SandboxWatch) watchOne(ctx context.Context, w attest.Watcher, t broker.Task) {
	s := t.Sandbox
	id := attest.Identity{Attestor: s.Attestor, Subject: s.Subject, Class: attest.Class(s.Class), Selectors: s.Selectors}
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		began := time.Now()
		exit, err := thirdparty.Safely(func() (attest.Exit, error) { return w.Watch(ctx, id) })
		if time.Since(began) > 2*wait { // it worked for a while
			wait = time.Second
		}
		switch {
		case err == nil:
			sw.exited(ctx, t, exit)
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, attest.ErrElsewhere):
			sw.sandboxes.away(t.ID)
			return
		}
		sw.m.Unwatched.WithLabelValues(s.Attestor).Inc()
		sw.logger.WarnContext(ctx, "a sandbox could not be watched; trying again", "task_id", t.ID, "attestor", s.Attestor, "error", err)
		if !kernel.Sleep(ctx, wait/2+rand.N(wait)) {
			return
		}
	}
}

// watched holds the watches of this process.
type watched struct {
	mu        sync.Mutex
	stops     map[string]context.CancelFunc // by task
	elsewhere map[string]bool               // tasks whose sandboxes cannot be watched from here
	newcomers chan string                   // tasks that have just got their sandbox
}

// add reports whether the task's sandbox was not watched before, and marks it as watched.
func (w *watched) add(taskID string, stop context.CancelFunc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, on := w.stops[taskID]; on || w.elsewhere[taskID] {
		return false
	}
	w.stops[taskID] = stop
	return true
}

func (w *watched) away(taskID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.elsewhere[taskID] = true
	delete(w.stops, taskID)
}

// keep stops the watches of all tasks not in open.
func (w *watched) keep(open map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, stop := range w.stops {
		if !open[id] {
			stop()
			delete(w.stops, id)
		}
	}
	for id := range w.elsewhere {
		if !open[id] {
			delete(w.elsewhere, id)
		}
	}
}

func (w *watched) stopAll() { w.keep(nil) }
