package load

import (
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// heapLimit is where the garbage collector sets in although it was put off.
const heapLimit = 1 << 30

// Quiet makes this process take as little as it can from a server on the same
// machine: garbage is collected now and not while a clock runs, and one thread
// does all the work, because idle threads of Go's scheduler look for work for a
// while before they sleep. It returns how to undo that. Both are properties of
// the process, so it is for programs that measure and do nothing beside it.
func Quiet() (undo func()) {
	runtime.GC()
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(heapLimit)
	procs := runtime.GOMAXPROCS(1)
	return func() {
		runtime.GOMAXPROCS(procs)
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}

// processCPU is what this process has used of all cores so far, in user and
// kernel mode; 0 if the system does not say.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
