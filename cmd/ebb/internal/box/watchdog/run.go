//go:build linux

package watchdog

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Descriptors that Start hands over: of the process, and of the program, which is done with when it runs.
const (
	watched = 3
	program = 4
)

// deaf are signals that also whoever ends the runner in good order sends to all that it has started.
var deaf = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}

// Run waits for the end of the process that is watched, or for the end of the runner, which is the
// end of standard input, and then kills the process.
func Run() error {
	signal.Ignore(deaf...)
	// Whoever tries it by hand has not the descriptor.
	if err := unix.PidfdSendSignal(watched, 0, nil, 0); err != nil {
		return fmt.Errorf("the process to watch: %w", err)
	}
	if err := unix.Close(program); err != nil {
		return fmt.Errorf("the program of the watchdog: %w", err)
	}
	if _, err := os.Stdout.Write([]byte{1}); err != nil {
		return err
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: watched, Events: unix.POLLIN}, {Fd: 0, Events: unix.POLLIN}}, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		kill := unix.PidfdSendSignal(watched, unix.SIGKILL, nil, 0)
		if errors.Is(kill, unix.ESRCH) { // it has ended by itself
			kill = nil
		}
		return errors.Join(err, kill)
	}
}
