package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Bounds of the garbage that may accumulate before a collection. ebb keeps
// little memory between requests, and allowing 40 MiB of garbage saves a
// fifteenth of the processor time of a mint. If more memory is live, as with
// idle tunnels and live leases, GOGC is 100: garbage up to the size of the live
// memory, not four times as much.
const (
	garbage    = 40 << 20
	mostGOGC   = 400
	noMoreGOGC = 100
)

// percent returns the GOGC for a process with kept bytes of live heap, stacks
// and globals, the sizes on which the collector bases its target
// (https://go.dev/doc/gc-guide).
func percent(kept uint64) int {
	return int(min(mostGOGC, max(noMoreGOGC, 100*garbage/max(kept, 1))))
}

// tuner sets GOGC by the live memory after each collection.
type tuner struct {
	mu   sync.Mutex
	kept []metrics.Sample
	set  int
	over bool
}

// tuneCollector starts a tuner and returns a function that stops it and
// restores GOGC. If the environment variable GOGC is set, it has no effect.
func tuneCollector() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	c := &tuner{kept: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}, set: mostGOGC}
	before := debug.SetGCPercent(c.set)
	c.arm()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.over = true
		debug.SetGCPercent(before)
	}
}

// arm has tune called after the next collection, by a cleanup of an object that
// is unreachable at once.
func (c *tuner) arm() {
	runtime.AddCleanup(&struct{ *tuner }{c}, func(c *tuner) {
		if c.tune() {
			c.arm()
		}
	}, c)
}

// tune sets GOGC if the value changes, because a change stops the world. It
// returns false after stop was called.
func (c *tuner) tune() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	metrics.Read(c.kept)
	var kept uint64
	for _, s := range c.kept {
		kept += s.Value.Uint64()
	}
	if p := percent(kept); p != c.set {
		c.set = p
		debug.SetGCPercent(p)
	}
	return true
}
