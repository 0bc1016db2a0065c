package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Bounds of how much garbage there may be before it is collected. Little is kept between
// requests, and a few tens of MiB buy a fifteenth of the processor time of a mint. Who keeps
// more, as idle tunnels and live leases do, has as much garbage again and not four times that.
const (
	garbage    = 40 << 20
	mostGOGC   = 400
	noMoreGOGC = 100
)

// percent is the GOGC for a process that keeps so many bytes: its heap, stacks and globals,
// of which the collector goes by (https://go.dev/doc/gc-guide).
func percent(kept uint64) int {
	return int(min(mostGOGC, max(noMoreGOGC, 100*garbage/max(kept, 1))))
}

// tuner sets GOGC by what the last collection has left.
type tuner struct {
	mu   sync.Mutex
	kept []metrics.Sample
	set  int
	over bool
}

// tuneCollector has the collector wait for so much garbage, and returns what ends that. Where
// GOGC is set it decides.
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

// arm has tune called after the next collection, of which what nobody holds is a part.
func (c *tuner) arm() {
	runtime.AddCleanup(&struct{ *tuner }{c}, func(c *tuner) {
		if c.tune() {
			c.arm()
		}
	}, c)
}

// tune sets GOGC if it is another, for which everything stops for a moment. false: it is over.
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
