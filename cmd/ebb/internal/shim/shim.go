//go:build linux

package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/watchdog"
)

// Config is what Run does.
type Config struct {
	Argv    []string
	Status  *os.File // where box.Status is written
	Release *os.File // whence comes the byte that lets the command begin
	TTY     bool     // standard input is a terminal that becomes the command's
	// Ports of loopback and the sockets that they lead to.
	Ports map[int]string
	// Direct are addresses of loopback and the hosts that they stand for.
	Direct map[string]string
	// Limits. No Processes: somebody else bounds them.
	Processes, Files uint64
	Readable         bool          // processes of the same user may look into this one
	Filter           bool          // the filter of system calls is not there yet
	Runner           io.ReadCloser // ends with the runner, and this process then; nil = the kernel sees to that
	Watchdog         bool          // this is no first process of a box, but the watchdog of one
}

// passed are the signals that the command gets.
var passed = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT, unix.SIGTSTP, unix.SIGWINCH,
}

// Run runs the command to its end and returns the exit code that this process is to end with.
// All that the command has left behind dies with this process, which is the first of the box.
func Run(c Config) (int, error) {
	if c.Watchdog {
		return 0, watchdog.Run()
	}
	// A descriptor that somebody left open for the runner is not for the command.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 1, fmt.Errorf("close_range: %w", err)
	}
	say := json.NewEncoder(c.Status)
	if c.Runner != nil {
		go func() {
			_, _ = io.Copy(io.Discard, c.Runner)
			os.Exit(1) // and all of the box with it
		}()
	}
	code, err := c.run(say)
	if err != nil && say.Encode(box.Status{Error: err.Error()}) == nil {
		return code, nil // the runner says it: standard error is the command's
	}
	return code, err
}

func (c Config) run(say *json.Encoder) (int, error) {
	runtime.LockOSThread() // the parent of the command is a thread, and letGo is for that one alone
	// Before anything can be sent: a first process has no default for a signal but none.
	signals, children := make(chan os.Signal, 64), make(chan os.Signal, 1)
	signal.Notify(signals, passed...)
	signal.Notify(children, unix.SIGCHLD)
	if err := c.wait(say); err != nil {
		return 1, err
	}
	if err := c.confine(); err != nil {
		return 1, err
	}
	for port, socket := range c.Ports {
		if err := carry(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), socket, ""); err != nil {
			return 1, err
		}
	}
	for address, host := range c.Direct {
		if err := carry(address, box.Tunnel, host); err != nil {
			return 1, err
		}
	}
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return 1, err
	}
	pid, err := syscall.ForkExec(path, c.Argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.TTY, Ctty: 0},
	})
	if err != nil {
		return 1, fmt.Errorf("%s: %w", c.Argv[0], err)
	}
	if err := say.Encode(box.Status{Running: true}); err != nil {
		return 1, err
	}
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(pid, s.(syscall.Signal)) // it may be over
		case <-children:
			ws, ended, err := bury(pid)
			if err != nil {
				return 1, err
			}
			if !ended {
				continue
			}
			code := box.Code(ws)
			return code, say.Encode(box.Status{Ended: true, Code: code})
		}
	}
}

// wait says that the box is there and waits until whoever made it has done what is to be done
// first. Only a byte lets the command begin: the end of the pipe is that of the runner.
func (c Config) wait(say *json.Encoder) error {
	if err := say.Encode(box.Status{Waiting: true}); err != nil {
		return err
	}
	defer c.Release.Close()
	if n, err := c.Release.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("nobody let the command begin: %w", err)
	}
	return nil
}

// bury takes every child that has ended, its own and those that lost their parents, and says
// how the command ended, if it has. A child that has only stopped is let go.
func bury(command int) (of syscall.WaitStatus, ended bool, err error) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ECHILD), pid == 0:
			return of, ended, nil
		case err != nil:
			return of, ended, fmt.Errorf("wait4: %w", err)
		case ws.Stopped():
			letGo(pid, ws.StopSignal())
		case pid == command && (ws.Exited() || ws.Signaled()):
			of, ended = ws, true
		}
	}
}

// letGo detaches a child that asked this process to trace it (ptrace(2), PTRACE_TRACEME): without that, it
// would stop for good at its next signal. The child gets the signal, but for those that are meant for a tracer.
func letGo(pid int, at syscall.Signal) {
	if at == syscall.SIGTRAP || at == syscall.SIGSTOP {
		at = 0
	}
	// An error says that the child is gone, or is a process that lost its parent and names another thread as its tracer.
	_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(at), 0, 0)
}
