package load

import (
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// heapLimit is the heap size in bytes at which the garbage collector runs
// although Quiet has disabled it.
const heapLimit = 1 << 30

// Quiet reduces the processor time that this process takes from a server on the
// same machine. It collects garbage now and not during the measurement. It
// limits Go to one thread, because idle threads of Go's scheduler look for work
// for a while before they sleep. undo restores the settings. Both settings
// apply to the whole process, so Quiet is for programs that only measure.
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

// processCPU returns the processor time of this process in user and kernel
// mode; 0 if the system does not report it.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
