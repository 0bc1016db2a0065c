//go:build linux

package bwrap

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"

	"ebb/cmd/ebb/internal/box"
)

// Kind implements box.Kind.
type Kind struct {
	Program string // bubblewrap; "" = bwrap on the PATH
	Self    string // this binary, which has the command shim; "" = as the system says
}

// Defaults of box.Limits.
const (
	maxProcesses = 1024
	maxFiles     = 4096
	maxTemporary = 1 << 30
)

// Start implements box.Kind.
func (k Kind) Start(s box.Spec) (box.Running, error) {
	program, err := exec.LookPath(cmp.Or(k.Program, "bwrap"))
	if err != nil {
		return nil, fmt.Errorf("%w: bubblewrap is not installed: %w", box.ErrNone, err)
	}
	if s.User == nil && os.Geteuid() == 0 {
		return nil, fmt.Errorf("%w: what runs as root here would be root to the machine: a box needs a user of its own", box.ErrNone)
	}
	m, err := k.mounts(s)
	defer m.close()
	if err != nil {
		return nil, err
	}
	s.Limits.Processes = cmp.Or(s.Limits.Processes, maxProcesses)
	s.Limits.Files = cmp.Or(s.Limits.Files, maxFiles)
	s.Limits.Temporary = cmp.Or(s.Limits.Temporary, maxTemporary)
	return start(program, m, s)
}

// mount is a place of the machine in a box.
type mount struct {
	from  *os.File
	to    string
	write bool
}

type mounts []mount

// mounts opens what a box has of the machine beside its programs, in the order in which it is
// mounted. What was opened before an error is in the answer, to be closed.
func (k Kind) mounts(s box.Spec) (all mounts, err error) {
	self := k.Self
	if self == "" {
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	p, err := newPlaces(s.Private)
	if err != nil {
		return nil, err
	}
	for _, path := range s.Read {
		f, err := p.open(path)
		if err != nil {
			return all, err
		}
		all = append(all, mount{from: f, to: path})
	}
	work, err := p.open(s.Work)
	if err != nil {
		return all, err
	}
	all = append(all, mount{from: work, to: box.WorkDir, write: true})
	if info, err := work.Stat(); err != nil || !info.IsDir() {
		return all, fmt.Errorf("%w: %s is no directory", box.ErrPlace, s.Work)
	}
	fd, err := unix.Open(self, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return all, fmt.Errorf("%s: %w", self, err)
	}
	all = append(all, mount{from: os.NewFile(uintptr(fd), self), to: box.Self})
	for _, name := range slices.Sorted(maps.Keys(s.Sockets)) {
		fd, err := unix.FcntlInt(s.Sockets[name].Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return all, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, mount{from: os.NewFile(uintptr(fd), name), to: box.Dir + "/" + name})
	}
	return all, nil
}

func (m mounts) close() {
	for _, one := range m {
		_ = one.from.Close()
	}
}
