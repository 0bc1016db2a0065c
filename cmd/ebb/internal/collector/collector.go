package collector

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Bounds of the garbage that may accumulate before a collection. ebb keeps
// little memory between requests, and allowing 40 MiB of garbage saves a
// fifteenth of the processor time of a mint. If more memory is live, as with
// idle tunnels and live leases, GOGC is 100: garbage up to the size of the live
// memory, not four times as much.
const (
	garbage = 40 << 20
	maxGOGC = 400
	minGOGC = 100
)

func init() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(maxGOGC)
	c := &tuner{kept: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}, set: maxGOGC}
	c.arm()
}

// percent returns the GOGC for a process with kept bytes of live heap, stacks
// and globals, the sizes on which the collector bases its target
// (https://go.dev/doc/gc-guide).
func percent(kept uint64) int {
	return int(min(maxGOGC, max(minGOGC, 100*garbage/max(kept, 1))))
}

// tuner sets GOGC by the live memory after each collection.
type tuner struct {
	kept []metrics.Sample
	set  int
}

// arm schedules tune after the next collection, as the cleanup of an object that
// is unreachable at once.
func (c *tuner) arm() {
	runtime.AddCleanup(&struct{ *tuner }{c}, (*tuner).tune, c)
}

// tune sets GOGC if the value changes, because a change stops the world. No two
// calls overlap: the next one is armed last.
func (c *tuner) tune() {
	metrics.Read(c.kept)
	var kept uint64
	for _, s := range c.kept {
		kept += s.Value.Uint64()
	}
	if p := percent(kept); p != c.set {
		c.set = p
		debug.SetGCPercent(p)
	}
	c.arm()
}
