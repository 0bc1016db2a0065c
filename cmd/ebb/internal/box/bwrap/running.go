//go:build linux

package bwrap

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

// running implements box.Running.
type running struct {
	cmd    *exec.Cmd
	init   *os.Process // the box's first process, held by a pidfd
	status *os.File
	said   *json.Decoder // of status
	read   chan struct{} // closed when the shim has said all
	ended  chan error    // bubblewrap's end

	mu      sync.Mutex
	started bool // the command runs, or has
	waiting []os.Signal
	last    box.Status
}

// follow reads what the shim says until nothing in the box can say anything.
func (r *running) follow() {
	defer close(r.read)
	defer r.status.Close()
	for {
		var s box.Status
		if err := r.said.Decode(&s); err != nil {
			return
		}
		if s.Running {
			r.begun()
			continue
		}
		r.mu.Lock()
		r.last = s
		r.mu.Unlock()
	}
}

// begun sends the signals that came too early: a first process without a handler would
// not have had them.
func (r *running) begun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	for _, sig := range r.waiting {
		_ = r.init.Signal(sig) // it may be over
	}
	r.waiting = nil
}

// Signal implements box.Running.
func (r *running) Signal(sig os.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		return r.init.Signal(sig)
	}
	r.waiting = append(r.waiting, sig)
	return nil
}

// Kill implements box.Running. The end of the first process is that of all.
func (r *running) Kill() { _ = r.init.Kill() }

// abandon ends a box of which nothing has been said to run, and waits for the end.
func (r *running) abandon() {
	if r.init == nil {
		_ = r.cmd.Process.Kill()
	} else { // which bubblewrap waits for
		r.Kill()
		r.gone()
		defer r.init.Release()
	}
	_ = r.cmd.Wait()
	_ = r.status.Close()
}

// gone waits for the end of the first process, which the kernel puts behind that of all
// others of its namespace. Bubblewrap may have died before it.
func (r *running) gone() {
	_ = r.init.WithHandle(func(pidfd uintptr) { // none: it is over
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
}

// Wait implements box.Running.
func (r *running) Wait() (int, error) {
	err := <-r.ended
	<-r.read
	_ = r.init.Release()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.last.Error != "":
		return 0, fmt.Errorf("%w: %s", box.ErrCommand, r.last.Error)
	case r.last.Ended:
		return r.last.Code, nil
	}
	// The shim had no time to say anything: the box was killed.
	ee, is := errors.AsType[*exec.ExitError](err)
	if !is {
		return 0, errors.Join(errors.New("the box ended without a word"), err)
	}
	return box.Code(ee.Sys().(syscall.WaitStatus)), nil
}

// memory is a file without a name, read from its start.
func memory(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("ebb-box", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ebb-box")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return f, err
}
