//go:build linux

package bwrap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/first"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/seccomp"
)

// running implements sandbox.Running.
type running struct {
	*first.Process
	cmd *exec.Cmd
}

// additional is the number of the first additional descriptor in bubblewrap.
const additional = 3

// start starts bubblewrap on a thread that lives as long as the sandbox: the
// kernel kills the sandbox when that thread ends (Pdeathsig), and only that
// thread sees the stage.
func start(program string, m place.Mounts, s sandbox.Spec) (*running, error) {
	r := &running{}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is used for nothing else
		err := r.start(program, m, s)
		made <- err
		if err == nil {
			r.Over(r.cmd.Wait())
		}
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	return r, nil
}

// start creates the sandbox up to the point where the shim starts the command.
func (r *running) start(program string, m place.Mounts, s sandbox.Spec) error {
	p := &plan{spec: s, data: map[string]int{}}
	f := &files{}
	defer f.close()
	drop := s.User != nil && os.Geteuid() == 0
	if drop {
		at, err := stage(m)
		if err != nil {
			return err
		}
		p.mounts = staged(m, at)
	} else {
		p.mounts = handed(m, f)
	}
	info, status, release, err := f.lay(p)
	if err != nil {
		return err
	}
	r.Process = first.New(status)
	// Every user can read command lines, so the options, which contain the
	// environment, are passed through a descriptor.
	r.cmd = exec.Command(program, append([]string{"--args", strconv.Itoa(f.input(p.options())), "--"}, p.shim()...)...)
	r.cmd.Env, r.cmd.Dir, r.cmd.ExtraFiles = []string{}, "/", f.theirs
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = s.Stdin, s.Stdout, s.Stderr
	// A session of its own, so that keys pressed at the runner's terminal do not
	// reach bubblewrap.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if s.Cgroup != nil {
		r.cmd.SysProcAttr.UseCgroupFD, r.cmd.SysProcAttr.CgroupFD = true, int(s.Cgroup.Fd())
	}
	if drop {
		r.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.User.UID, Gid: s.User.GID}
	}
	if err := errors.Join(f.err, r.cmd.Start()); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	f.started()
	if err := r.meet(info, s); err != nil {
		r.abandon()
		return err
	}
	if _, err := release.Write([]byte{1}); err != nil {
		r.abandon()
		return err
	}
	go r.Follow()
	return nil
}

// abandon ends a sandbox that has not been allowed to start its command, and
// waits for the end.
func (r *running) abandon() {
	if !r.Held() {
		_ = r.cmd.Process.Kill()
	}
	r.Abandon()
	_ = r.cmd.Wait()
}

// meet reads the namespaces of the sandbox, and calls Ready while bubblewrap
// mounts the files. It returns when the shim waits and Ready has returned. The
// shim continues only after it was sent a byte, not when this process closes
// the pipe.
func (r *running) meet(info io.Reader, s sandbox.Spec) error {
	var id struct {
		PID   int    `json:"child-pid"`
		NetNS uint64 `json:"net-namespace"`
		PIDNS uint64 `json:"pid-namespace"`
	}
	if err := json.NewDecoder(info).Decode(&id); err != nil || id.NetNS == 0 || id.PIDNS == 0 || id.PID <= 1 {
		return fmt.Errorf("%w: bubblewrap ended before it had created the namespaces; see its output above", sandbox.ErrNone)
	}
	process, err := os.FindProcess(id.PID)
	if err != nil {
		return err
	}
	r.Hold(process) // signals go to this process only, even if its PID is reused
	ready := make(chan error, 1)
	if s.Ready == nil {
		ready <- nil
	} else {
		go func() { ready <- s.Ready(sandbox.Identity{PID: id.PID, NetNS: id.NetNS, PIDNS: id.PIDNS}) }()
	}
	if r.Waits() != nil {
		<-ready // Ready must not run after Start has returned; its error no longer matters
		return fmt.Errorf("%w: bubblewrap ended before the sandbox was complete; see its output above", sandbox.ErrNone)
	}
	return errors.Join(lowPorts(id.PID, s.Direct), <-ready)
}

// files are the descriptors shared between this process and bubblewrap.
type files struct {
	theirs []*os.File // in the order of their numbers in bubblewrap
	lent   map[*os.File]bool
	ours   []*os.File
	err    error
}

// give keeps a descriptor for bubblewrap and returns its number there.
func (f *files) give(file *os.File) int {
	f.theirs = append(f.theirs, file)
	return additional + len(f.theirs) - 1
}

// lend is give for a file that the caller closes.
func (f *files) lend(file *os.File) int {
	if f.lent == nil {
		f.lent = map[*os.File]bool{}
	}
	f.lent[file] = true
	return f.give(file)
}

// input returns a descriptor from which bubblewrap reads a short text.
func (f *files) input(data any) int {
	var text []byte
	switch d := data.(type) {
	case []byte:
		text = d
	case []string:
		text = []byte(strings.Join(d, "\x00") + "\x00")
	}
	file, err := memory(text)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return -1
	}
	return f.give(file)
}

// lay creates all descriptors except that of the options, which name the
// others.
func (f *files) lay(p *plan) (info, status, release *os.File, err error) {
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		f.err = errors.Join(f.err, err)
		return r, w
	}
	info, infoW := pipe()
	status, statusW := pipe()
	releaseR, release := pipe()
	if f.err != nil {
		return nil, nil, nil, f.err
	}
	f.ours = append(f.ours, info, release)
	p.info, p.status, p.release = f.give(infoW), f.give(statusW), f.give(releaseR)
	filter, err := seccomp.Filter()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	p.filter = f.input(filter)
	for path, text := range sandbox.Etc(p.spec) {
		p.data[path] = f.input(text)
	}
	return info, status, release, f.err
}

// started closes the descriptors that bubblewrap has inherited.
func (f *files) started() {
	for _, file := range f.theirs {
		if !f.lent[file] {
			_ = file.Close()
		}
	}
	f.theirs = nil
}

func (f *files) close() {
	f.started()
	for _, file := range f.ours {
		_ = file.Close()
	}
}

// memory returns an anonymous file with text, positioned at its start.
func memory(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("ebb-sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ebb-sandbox")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return f, err
}

// Kind implements sandbox.Kind.
type Kind struct {
	Program string // path of bubblewrap; "" = bwrap on the PATH
	Self    string // path of this binary, which has the command shim; "" = os.Executable
}

// Start implements sandbox.Kind.
func (k Kind) Start(s sandbox.Spec) (sandbox.Running, error) {
	program, err := exec.LookPath(cmp.Or(k.Program, "bwrap"))
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w: bubblewrap is not installed", sandbox.ErrNone)
	case err != nil:
		return nil, fmt.Errorf("%w: bubblewrap cannot be started: %w", sandbox.ErrNone, err)
	}
	if s.User == nil && os.Geteuid() == 0 {
		return nil, fmt.Errorf("%w: a sandbox started by root needs a user of its own, because its root would be the machine's root", sandbox.ErrNone)
	}
	m, err := place.Of(s, k.Self)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s.Limits = s.Limits.OrDefault()
	return start(program, m, s)
}
