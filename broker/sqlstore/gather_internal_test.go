package sqlstore

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// gatherer returns a committer whose previous batch had shared units and took the given
// time.
func gatherer(shared int, took time.Duration, waits int) *committer {
	return &committer{engine: &engine{waits: waits}, queue: make(chan *unit, 8), closing: make(chan struct{}), shared: shared, took: took}
}

// Each case is one call of gather: the queued units, the units that arrive later with
// their delays, and the expected size and wait of the batch.
func TestGather(t *testing.T) {
	t.Parallel()
	type event struct {
		after time.Duration
		what  string // mint, end, withdrawn, stop
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		shared int
		took   time.Duration
		waits  int // of the engine
		first  string
		queue  []string
		events []event
		units  int
		waited time.Duration
	}{
		{name: "alone after one that was alone", shared: 1, took: time.Hour, units: 1},
		{name: "the first of all", units: 1},
		{name: "as many as before wait already", shared: 3, took: time.Hour, queue: []string{"mint", "mint"}, units: 3},
		{name: "more than before wait already", shared: 2, took: time.Hour, queue: []string{"mint", "mint", "mint"}, units: 4},
		{name: "as many as before come", shared: 3, took: time.Hour, events: []event{{ms, "mint"}, {2 * ms, "mint"}, {3 * ms, "mint"}}, units: 3, waited: 2 * ms},
		{name: "fewer come", shared: 4, took: 8 * ms, events: []event{{ms, "mint"}, {5 * ms, "mint"}}, units: 2, waited: 4 * ms},
		{name: "nobody comes", shared: 4, took: 8 * ms, units: 1, waited: 4 * ms},
		{name: "nobody comes where few shared and many may be waited for", shared: 2, took: 8 * ms, waits: 16, units: 1, waited: 4 * ms},
		{name: "nobody comes where some did", shared: 5, took: 4 * ms, waits: 16, units: 1, waited: 5 * ms},
		{name: "nobody comes where many did", shared: 64, took: 2 * ms, waits: 16, units: 1, waited: 8 * ms},
		{name: "nobody comes where many did and few may be waited for", shared: 64, took: 2 * ms, units: 1, waited: ms},
		{name: "nobody comes after a slow batch of many", shared: 64, took: time.Hour, waits: 16, units: 1, waited: patience},
		{name: "who comes late comes in time where many did", shared: 12, took: 2 * ms, waits: 16, events: []event{{ms, "mint"}, {5 * ms, "mint"}, {7 * ms, "mint"}}, units: 3, waited: 6 * ms},
		{name: "nobody comes after a slow batch", shared: 4, took: time.Hour, units: 1, waited: patience},
		{name: "an end is not kept waiting", shared: 4, took: time.Hour, first: "end", units: 1},
		{name: "nor is one that waits already", shared: 4, took: time.Hour, queue: []string{"end"}, units: 2},
		{name: "nor is one that comes", shared: 4, took: time.Hour, events: []event{{ms, "mint"}, {2 * ms, "end"}, {3 * ms, "mint"}}, units: 3, waited: 2 * ms},
		{name: "nobody waits for what was withdrawn", shared: 4, took: time.Hour, first: "withdrawn"},
		{name: "withdrawn meanwhile", shared: 3, took: time.Hour, events: []event{{ms, "withdrawn"}, {2 * ms, "mint"}, {3 * ms, "mint"}}, units: 3, waited: 3 * ms},
		{name: "what is late waits for the next who is not", first: "late", events: []event{{ms, "late"}, {3 * ms, "mint"}, {4 * ms, "mint"}}, units: 3, waited: 3 * ms},
		{name: "and no longer than it may", first: "late", events: []event{{ms, "late"}, {time.Second / 2, "mint"}}, units: 2, waited: lateness},
		{name: "it is nobody's company", shared: 3, took: time.Hour, first: "late", queue: []string{"late", "late", "mint"}, units: 4, waited: patience},
		{name: "a batch beside it is as large as without", shared: 2, took: time.Hour, first: "late", events: []event{{ms, "mint"}, {2 * ms, "late"}, {3 * ms, "mint"}}, units: 4, waited: 3 * ms},
		{name: "an end takes it along", first: "late", queue: []string{"end"}, units: 2},
		{name: "what is late does not wait for a store that is closed", first: "late", events: []event{{ms, "stop"}}, units: 1, waited: ms},
		{name: "nor for what was withdrawn", first: "late", events: []event{{ms, "withdrawn"}}, units: 1, waited: lateness},
		{name: "the store is closed", shared: 4, took: time.Hour, events: []event{{ms, "stop"}}, units: 1, waited: ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := gatherer(tt.shared, tt.took, tt.waits)
				for _, what := range tt.queue {
					c.queue <- unitThat(what)
				}
				for _, e := range tt.events {
					time.AfterFunc(e.after, func() {
						if e.what == "stop" {
							close(c.closing)
							return
						}
						c.queue <- unitThat(e.what)
					})
				}
				begin := time.Now()
				c.gather(unitThat(tt.first))
				if waited := time.Since(begin); len(c.batch) != tt.units || waited != tt.waited {
					t.Errorf("%d units share a commit after %s, want %d after %s", len(c.batch), waited, tt.units, tt.waited)
				}
				if slices.ContainsFunc(c.batch, func(u *unit) bool { return u.place.Load() != taken }) {
					t.Error("a unit of the batch can still be withdrawn")
				}
				time.Sleep(time.Second) // so that a later unit finds room in the queue
			})
		})
	}
}

func unitThat(what string) *unit {
	u := &unit{}
	switch what {
	case "end":
		u.work = func(context.Context, *session, *unit) error { return nil }
	case "late":
		u.late = true
	case "withdrawn":
		u.place.Store(withdrawn)
	}
	return u
}

// A batch never exceeds maxBatch, however many units wait.
func TestGatherIsBounded(t *testing.T) {
	t.Parallel()
	c := gatherer(maxBatch, time.Hour, 0)
	c.queue = make(chan *unit, 2*maxBatch)
	for range 2 * maxBatch {
		c.queue <- unitThat("mint")
	}
	c.gather(<-c.queue)
	if len(c.batch) != maxBatch || len(c.queue) != maxBatch {
		t.Errorf("%d of %d units share a commit", len(c.batch), 2*maxBatch)
	}
}
