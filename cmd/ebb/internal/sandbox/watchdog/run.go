//go:build linux

package watchdog

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Descriptors that Start passes: the pidfd of the watched process, and the
// executed program, which Run closes.
const (
	watched = 3
	program = 4
)

// deaf are the signals that a service manager may send to all processes of the
// runner when it stops the runner.
var deaf = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}

// Run waits until the watched process has ended, or until the runner has ended,
// which closes standard input. Then it kills the watched process.
func Run() error {
	signal.Ignore(deaf...)
	// If a user starts the command directly, the descriptor is missing.
	if err := unix.PidfdSendSignal(watched, 0, nil, 0); err != nil {
		return fmt.Errorf("signal the process to watch: %w", err)
	}
	if err := unix.Close(program); err != nil {
		return fmt.Errorf("close the program of the watchdog: %w", err)
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
		if errors.Is(kill, unix.ESRCH) { // it has already ended
			kill = nil
		}
		return errors.Join(err, kill)
	}
}
