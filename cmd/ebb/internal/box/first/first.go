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

	"ebb/cmd/ebb/internal/box"
)

// maxSaid bounds what a first process says.
const maxSaid = 64 << 10

// Process implements box.Running.
type Process struct {
	process *os.Process // held by a pidfd; nil = not known
	status  *os.File
	said    *json.Decoder // of status
	read    chan struct{} // closed when the shim has said all
	ended   chan error    // the end of the program that made the box

	mu      sync.Mutex
	started bool // the command runs, or has
	waiting []os.Signal
	last    box.Status
}

// New has what the first process says on status, which is closed in the end.
func New(status *os.File) *Process {
	return &Process{status: status, said: json.NewDecoder(io.LimitReader(status, maxSaid)), read: make(chan struct{}), ended: make(chan error, 1)}
}

// Hold takes the first process, and lets go of it in the end.
func (p *Process) Hold(process *os.Process) { p.process = process }

// Handle is its pidfd, to be closed by who asks.
func (p *Process) Handle() (*os.File, error) {
	var fd int
	var err error
	if gone := p.process.WithHandle(func(pidfd uintptr) { fd, err = unix.FcntlInt(pidfd, unix.F_DUPFD_CLOEXEC, 0) }); gone != nil || err != nil {
		return nil, fmt.Errorf("the box's first process: %w", errors.Join(gone, err))
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// Held reports whether the first process is known.
func (p *Process) Held() bool { return p.process != nil }

// Alive reports whether the first process is still there.
func (p *Process) Alive() bool { return p.process.Signal(syscall.Signal(0)) == nil }

// Waits returns when the first process says that it waits to be let go on, or an error when it is over.
func (p *Process) Waits() error {
	var s box.Status
	if err := p.said.Decode(&s); err != nil || !s.Waiting {
		return errors.Join(errors.New("the box ended before it was furnished"), err)
	}
	return nil
}

// Follow reads what the first process says until nothing in the box can say anything.
func (p *Process) Follow() {
	defer close(p.read)
	defer p.status.Close()
	for {
		var s box.Status
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

// begun sends the signals that came too early: a first process without a handler would
// not have had them.
func (p *Process) begun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = true
	for _, sig := range p.waiting {
		_ = p.process.Signal(sig) // it may be over
	}
	p.waiting = nil
}

// Signal implements box.Running.
func (p *Process) Signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started {
		return p.process.Signal(sig)
	}
	p.waiting = append(p.waiting, sig)
	return nil
}

// Kill implements box.Running. The end of the first process is that of all.
func (p *Process) Kill() { _ = p.process.Kill() }

// Abandon ends a box of which nothing has been said to run, and waits for the end.
func (p *Process) Abandon() {
	if p.Held() {
		p.Kill()
		p.Gone()
		_ = p.process.Release()
	}
	_ = p.status.Close()
}

// Gone waits for the end of the first process, which the kernel puts behind that of all
// others of its namespace. What made the box may have died before it.
func (p *Process) Gone() {
	_ = p.process.WithHandle(func(pidfd uintptr) { // none: it is over
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
}

// Over is called once, with what became of the program that made the box. Wait returns then, when
// nothing of the box runs any more.
func (p *Process) Over(err error) {
	p.Gone()
	p.ended <- err
}

// Wait implements box.Running. It returns after Over.
func (p *Process) Wait() (int, error) {
	err := <-p.ended
	<-p.read
	_ = p.process.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.last.Error != "":
		return 0, fmt.Errorf("%w: %s", box.ErrCommand, p.last.Error)
	case p.last.Ended:
		return p.last.Code, nil
	}
	// The shim had no time to say anything: the box was killed.
	ee, is := errors.AsType[*exec.ExitError](err)
	if !is {
		return 0, errors.Join(errors.New("the box ended without a word"), err)
	}
	return box.Code(ee.Sys().(syscall.WaitStatus)), nil
}
