//go:build linux

package shim

import (
	"cmp"
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

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/seccomp"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/watchdog"
)

// Config configures Run.
type Config struct {
	Argv    []string
	Status  *os.File // sandbox.Status is written to it
	Release *os.File // the byte that lets the command start is read from it
	TTY     bool     // standard input is a terminal that becomes the command's
	// Ports maps ports of loopback to sockets.
	Ports map[int]string
	// Direct maps addresses of loopback to hosts.
	Direct map[string]string
	// Limits. Processes is 0 if the kind limits them.
	Processes, Files uint64
	Readable         bool          // the process stays dumpable: processes of the same user may inspect it
	Filter           bool          // the system call filter is not installed yet
	Runner           io.ReadCloser // closed when the runner ends, and this process ends then; nil = the kernel kills it
	Watchdog         bool          // run the watchdog of a sandbox, not its first process
}

// passed are the signals that are forwarded to the command.
var passed = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT, unix.SIGTSTP, unix.SIGWINCH,
}

// Run runs the command to its end and returns the exit code for this process.
// Processes that the command left behind end with this process, which is the
// first of the PID namespace.
func Run(c Config) (int, error) {
	if c.Watchdog {
		return 0, watchdog.Run()
	}
	// Descriptors that the runner has inherited must not reach the command.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 1, fmt.Errorf("close_range: %w", err)
	}
	say := json.NewEncoder(c.Status)
	if c.Runner != nil {
		go func() {
			_, _ = io.Copy(io.Discard, c.Runner)
			os.Exit(1) // the sandbox ends with this process
		}()
	}
	code, err := c.run(say)
	if err == nil {
		return code, nil
	}
	failed := sandbox.Status{Error: err.Error()}
	if e, ok := errors.AsType[*sandbox.CommandError](err); ok {
		failed.Error, failed.Code = e.Err.Error(), e.Code
	}
	if say.Encode(failed) == nil {
		return code, nil // the runner reports it: standard error belongs to the command
	}
	return code, err
}

func (c Config) run(say *json.Encoder) (int, error) {
	runtime.LockOSThread() // ptrace is bound to a thread, and letGo must run on the command's parent
	// Before a signal can arrive: the first process of a PID namespace ignores
	// signals without a handler.
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
		if err := carry(address, sandbox.Tunnel, host); err != nil {
			return 1, err
		}
	}
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return 1, sandbox.NotStarted(err)
	}
	pid, err := syscall.ForkExec(path, c.Argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.TTY, Ctty: 0},
	})
	if err != nil {
		return 1, sandbox.NotStarted(fmt.Errorf("%s: %w", c.Argv[0], err))
	}
	if err := say.Encode(sandbox.Status{Running: true}); err != nil {
		return 1, err
	}
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(pid, s.(syscall.Signal)) // the command may have ended
		case <-children:
			ws, ended, err := bury(pid)
			if err != nil {
				return 1, err
			}
			if !ended {
				continue
			}
			code := sandbox.Code(ws)
			return code, say.Encode(sandbox.Status{Ended: true, Code: code})
		}
	}
}

// wait reports that the sandbox is ready and waits for its release. Only a byte
// lets the command start: a closed pipe means that the runner has ended.
func (c Config) wait(say *json.Encoder) error {
	if err := say.Encode(sandbox.Status{Waiting: true}); err != nil {
		return err
	}
	defer c.Release.Close()
	if n, err := c.Release.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the runner ended before it released the command: %w", err)
	}
	return nil
}

// bury reaps every child that has ended, including orphans, and returns the
// status of the command if it has ended. A child that is stopped by tracing is
// detached.
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

// letGo detaches a child that made this process its tracer (ptrace(2),
// PTRACE_TRACEME): else it would stop forever at its next signal. The child
// gets the signal, except those meant for a tracer.
func letGo(pid int, at syscall.Signal) {
	if at == syscall.SIGTRAP || at == syscall.SIGSTOP {
		at = 0
	}
	// An error means that the child has ended, or is an orphan that named another
	// thread as its tracer.
	_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(at), 0, 0)
}

// overkill is the oom_score_adj of a sandbox: the kernel's out-of-memory killer
// kills it before other processes of the user.
const overkill = "500"

// confine sets limits that all processes of the sandbox inherit. A limit that
// the kernel does not permit is skipped: the isolation does not depend on it.
func (c Config) confine() error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(overkill), 0); err != nil && !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("oom_score_adj: %w", err)
	}
	for _, l := range []struct {
		what int
		to   uint64
	}{{unix.RLIMIT_NPROC, cmp.Or(c.Processes, math.MaxUint64)}, {unix.RLIMIT_NOFILE, c.Files}, {unix.RLIMIT_CORE, 0}} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.what, &now); err != nil {
			return fmt.Errorf("getrlimit %d: %w", l.what, err)
		}
		to := min(l.to, now.Max)
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: to, Max: to}); err != nil {
			return fmt.Errorf("setrlimit %d: %w", l.what, err)
		}
	}
	if !c.Readable { // by other processes of the sandbox, which could otherwise trace this one
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fmt.Errorf("prctl: %w", err)
		}
	}
	if c.Filter {
		return seccomp.Install()
	}
	return nil
}
