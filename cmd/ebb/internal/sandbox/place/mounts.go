//go:build linux

package place

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// Mount is a path of the machine in a sandbox.
type Mount struct {
	From  *os.File
	To    string
	Write bool
}

// Mounts are in the order of mounting.
type Mounts []Mount

// Of opens the paths of the machine that a sandbox gets, except its programs.
// self is the binary of its first process; "" = this one.
func Of(s sandbox.Spec, self string) (Mounts, error) {
	all, err := open(s, self)
	if err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// open implements Of. After an error it also returns the mounts opened so far,
// for the caller to close.
func open(s sandbox.Spec, self string) (all Mounts, err error) {
	if self == "" {
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	p, err := readPlaces(s.Private)
	if err != nil {
		return nil, err
	}
	for _, path := range s.Read {
		f, err := p.Open(path)
		if err != nil {
			return all, err
		}
		all = append(all, Mount{From: f, To: path})
	}
	work, err := p.Open(s.Work)
	if err != nil {
		return all, err
	}
	all = append(all, Mount{From: work, To: sandbox.WorkDir, Write: true})
	if info, err := work.Stat(); err != nil || !info.IsDir() {
		return all, fmt.Errorf("%w: %s is not a directory", sandbox.ErrPlace, s.Work)
	}
	for _, one := range s.Fixed {
		// Resolved beneath the directory that was checked, so that another sandbox
		// cannot redirect the path.
		fd, err := unix.Openat2(int(work.Fd()), one.Path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return all, fmt.Errorf("%w: %s of %s: %w", sandbox.ErrPlace, one.Path, s.Work, err)
		}
		all = append(all, Mount{From: os.NewFile(uintptr(fd), one.Path), To: sandbox.WorkDir + "/" + one.Path, Write: one.Write})
	}
	fd, err := unix.Open(self, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return all, fmt.Errorf("%s: %w", self, err)
	}
	all = append(all, Mount{From: os.NewFile(uintptr(fd), self), To: sandbox.Self})
	for _, name := range slices.Sorted(maps.Keys(s.Sockets)) {
		fd, err := unix.FcntlInt(s.Sockets[name].Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return all, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, Mount{From: os.NewFile(uintptr(fd), name), To: sandbox.Dir + "/" + name})
	}
	return all, nil
}

// Self is the binary of the first process of the sandbox.
func (m Mounts) Self() *os.File {
	return m[slices.IndexFunc(m, func(one Mount) bool { return one.To == sandbox.Self })].From
}

// Close closes all files.
func (m Mounts) Close() {
	for _, one := range m {
		_ = one.From.Close()
	}
}
