//go:build linux

package bwrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/seccomp"
)

// first is the number in bubblewrap of the first of its additional descriptors.
const first = 3

// start starts bubblewrap on a thread that lives as long as the box: the kernel ends the box
// when the thread that started it ends, and a stage is seen from there only.
func start(program, self string, s box.Spec) (*running, error) {
	r := &running{read: make(chan struct{}), ended: make(chan error, 1)}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is used for nothing else
		err := r.start(program, self, s)
		made <- err
		if err == nil {
			r.ended <- r.cmd.Wait()
		}
	}()
	if err := <-made; err != nil {
		return nil, err
	}
	return r, nil
}

// start makes the box up to where the shim runs.
func (r *running) start(program, self string, s box.Spec) error {
	p := &plan{spec: s, self: self, place: func(path string) string { return path }, data: map[string]int{}}
	drop := s.User != nil && os.Geteuid() == 0
	if drop {
		st, err := newStage()
		if err != nil {
			return err
		}
		for _, path := range append(append([]string{s.Work, self}, s.Read...), slices.Collect(maps.Values(s.Sockets))...) {
			if err := st.add(path); err != nil {
				return err
			}
		}
		p.place = func(path string) string { return st.at[path] }
	}
	f := &files{}
	defer f.close()
	info, status, release, err := f.lay(p)
	if err != nil {
		return err
	}
	r.status = status
	// The environment is not for everybody who lists processes: options come by a descriptor.
	r.cmd = exec.Command(program, append([]string{"--args", strconv.Itoa(f.input(p.options())), "--"}, p.shim()...)...)
	r.cmd.Env, r.cmd.Dir, r.cmd.ExtraFiles = []string{}, "/", f.theirs
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = s.Stdin, s.Stdout, s.Stderr
	// A session of its own: keys pressed at the runner's terminal are not for bubblewrap.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if drop {
		r.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.User.UID, Gid: s.User.GID}
	}
	if err := errors.Join(f.err, startAll(r.cmd, f)); err != nil {
		return fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	if err := r.meet(info, release, s.Ready); err != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		return err
	}
	go r.follow()
	return nil
}

func startAll(cmd *exec.Cmd, f *files) error {
	err := cmd.Start()
	for _, file := range f.theirs {
		err = errors.Join(err, file.Close())
	}
	f.theirs = nil
	return err
}

// meet learns which namespaces the box has, tells who wants to know, and lets it go on.
func (r *running) meet(info io.Reader, release io.WriteCloser, ready func(box.Identity) error) error {
	defer release.Close()
	var said struct {
		PID   int    `json:"child-pid"`
		NetNS uint64 `json:"net-namespace"`
		PIDNS uint64 `json:"pid-namespace"`
	}
	if err := json.NewDecoder(info).Decode(&said); err != nil || said.NetNS == 0 || said.PIDNS == 0 || said.PID <= 1 {
		return fmt.Errorf("%w: bubblewrap ended before there was a box, as it says above", box.ErrNone)
	}
	init, err := os.FindProcess(said.PID) // by a pidfd: it waits for us, and is the box's first process for good
	if err != nil {
		return err
	}
	r.init = init
	if ready != nil {
		if err := ready(box.Identity{PID: said.PID, NetNS: said.NetNS, PIDNS: said.PIDNS}); err != nil {
			return err
		}
	}
	_, err = release.Write([]byte{1})
	return err
}

// files are the descriptors between this process and bubblewrap.
type files struct {
	theirs, ours []*os.File
	err          error
}

// give keeps a descriptor for bubblewrap and says which number it has there.
func (f *files) give(file *os.File) int {
	f.theirs = append(f.theirs, file)
	return first + len(f.theirs) - 1
}

// input is a descriptor from which something short is read.
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

// lay makes all descriptors but that of the arguments, which name the others.
func (f *files) lay(p *plan) (info, status, release *os.File, err error) {
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		f.err = errors.Join(f.err, err)
		return r, w
	}
	info, infoW := pipe()
	status, statusW := pipe()
	blockR, release := pipe()
	if f.err != nil {
		return nil, nil, nil, f.err
	}
	f.ours = append(f.ours, info)
	p.info, p.status, p.block = f.give(infoW), f.give(statusW), f.give(blockR)
	filter, err := seccomp.Filter()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	p.filter = f.input(filter)
	for path, text := range etc(p.spec) {
		p.data[path] = f.input(text)
	}
	return info, status, release, f.err
}

func (f *files) close() {
	for _, file := range append(f.theirs, f.ours...) {
		_ = file.Close()
	}
}
