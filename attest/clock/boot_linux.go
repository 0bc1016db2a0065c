package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended returns how long this machine has been suspended since it was started. Go's
// monotonic clock stands still during that time.
func suspended() time.Duration {
	var boot, running unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &running) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - running.Nano())
}
