//go:build linux

package first

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// maxSaid is the maximum size in bytes of all reports of a first process.
const maxSaid = 64 << 10

// Process implements sandbox.Running.
type Process struct {
	process *os.Process // held by a pidfd; nil = not known
	status  *os.File
	said    *json.Decoder // of status
	read    chan struct{} // closed when the shim has reported everything
	ended   chan error    // result of the program that created the sandbox

	mu      sync.Mutex
	started bool // the command was started
	waiting []os.Signal
	last    sandbox.Status
}

// New returns a Process that reads the reports on status. It closes status in
// the end.
func New(status *os.File) *Process {
	return &Process{status: status, said: json.NewDecoder(io.LimitReader(status, maxSaid)), read: make(chan struct{}), ended: make(chan error, 1)}
}

// Hold sets the first process. Wait or Abandon releases it.
func (p *Process) Hold(process *os.Process) { p.process = process }

// Handle returns a duplicate of its pidfd, which the caller closes.
func (p *Process) Handle() (*os.File, error) {
	var fd int
	var err error
	if gone := p.process.WithHandle(func(pidfd uintptr) { fd, err = unix.FcntlInt(pidfd, unix.F_DUPFD_CLOEXEC, 0) }); gone != nil || err != nil {
		return nil, fmt.Errorf("duplicate the pidfd of the sandbox's first process: %w", errors.Join(gone, err))
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// Held reports whether the first process is known.
func (p *Process) Held() bool { return p.process != nil }

// Alive reports whether the first process still runs.
func (p *Process) Alive() bool { return p.process.Signal(syscall.Signal(0)) == nil }

// Waits returns when the first process reports that it waits for its release,
// and returns an error if it has ended.
func (p *Process) Waits() error {
	var s sandbox.Status
	if err := p.said.Decode(&s); err != nil || !s.Waiting {
		return errors.Join(errors.New("the sandbox ended before it was complete"), err)
	}
	return nil
}

// Follow reads the reports of the first process until no process of the sandbox
// can write any.
func (p *Process) Follow() {
	defer close(p.read)
	defer p.status.Close()
	for {
		var s sandbox.Status
		if err := p.said.Decode(&s); err != nil {
			return
		}
		if s.Running {
			p.begun()
			continue
		}
		p.mu.Lock()
		p.last = s
		p.mu.Unlock()
	}
}

// begun sends the signals that came before the command ran: the first process
// of a PID namespace ignores signals without a handler.
func (p *Process) begun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = true
	for _, sig := range p.waiting {
		_ = p.process.Signal(sig) // the process may have ended
	}
	p.waiting = nil
}

// Signal implements sandbox.Running.
func (p *Process) Signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return p.process.Signal(sig)
	}
	p.waiting = append(p.waiting, sig)
	return nil
}

// Kill implements sandbox.Running. When the first process ends, the kernel kills
// all others of its PID namespace.
func (p *Process) Kill() { _ = p.process.Kill() }

// Abandon ends a sandbox that has not been allowed to start its command, and
// waits for the end.
func (p *Process) Abandon() {
	if p.Held() {
		p.Kill()
		p.Gone()
		_ = p.process.Release()
	}
	_ = p.status.Close()
}

// Gone waits for the end of the first process, which the kernel reports only
// after all other processes of its PID namespace have ended. The program that
// created the sandbox may have ended earlier.
func (p *Process) Gone() {
	_ = p.process.WithHandle(func(pidfd uintptr) { // an error means that the process has ended
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
}

// Over is called once, with the result of the program that created the sandbox.
// Wait then returns, when no process of the sandbox runs any more.
func (p *Process) Over(err error) {
	p.Gone()
	p.ended <- err
}

// Wait implements sandbox.Running. It returns after Over.
func (p *Process) Wait() (int, error) {
	err := <-p.ended
	<-p.read
	_ = p.process.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.last.Error != "":
		return 0, &sandbox.CommandError{Code: p.last.Code, Err: errors.New(p.last.Error)}
	case p.last.Ended:
		return p.last.Code, nil
	}
	// The shim was killed before it could report anything.
	ee, is := errors.AsType[*exec.ExitError](err)
	if !is {
		return 0, errors.Join(errors.New("the sandbox ended without a report"), err)
	}
	return sandbox.Code(ee.Sys().(syscall.WaitStatus)), nil
}
