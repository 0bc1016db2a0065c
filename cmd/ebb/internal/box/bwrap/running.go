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
	for dec := json.NewDecoder(io.LimitReader(r.status, 64<<10)); ; {
		var s box.Status
		if err := dec.Decode(&s); err != nil {
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
	case r.last.Signal != 0:
		return 128 + r.last.Signal, nil
	case r.last.Ended:
		return r.last.Code, nil
	}
	// The shim had no time to say anything: the box was killed.
	ee, is := errors.AsType[*exec.ExitError](err)
	if !is {
		return 0, errors.Join(errors.New("the box ended without a word"), err)
	}
	if ws, is := ee.Sys().(syscall.WaitStatus); is && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return ee.ExitCode(), nil
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
