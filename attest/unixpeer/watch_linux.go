package unixpeer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"ebb/attest"
)

// watchProcess waits for the end of the process that had a number and a start. No
// thread waits: a pidfd is readable when its process has ended.
func (a *Attestor) watchProcess(ctx context.Context, pid int, start uint64) (attest.Death, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return attest.Death{}, nil
	}
	if err != nil {
		return attest.Death{}, fmt.Errorf("attest/unixpeer: pidfd_open: %w", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close() //nolint:errcheck // nothing was written
	_, now, err := a.stat(pid)
	if errors.Is(err, fs.ErrNotExist) || err == nil && now != start {
		return attest.Death{}, nil // the number is another's by now, or nobody's
	}
	if err != nil {
		return attest.Death{}, fmt.Errorf("attest/unixpeer: %w", err)
	}
	if dead, err := exited(fd); dead || err != nil {
		return attest.Death{}, err
	}
	err = wait(ctx, f, func(fd int) (bool, error) { return exited(fd) })
	if err != nil {
		return attest.Death{}, err
	}
	return attest.Death{At: a.cfg.Now()}, nil
}

// watchCgroup waits until no process is left in a cgroup and below.
func (a *Attestor) watchCgroup(ctx context.Context, dir string, number uint64) (attest.Death, error) {
	gone := attest.Death{How: containerEnded}
	f, err := os.Open(filepath.Join(a.cgroups, dir, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return gone, nil
	}
	if err != nil {
		return attest.Death{}, fmt.Errorf("attest/unixpeer: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	// Another cgroup may have the name by now.
	if a.cgroupID(cgroup{path: dir, v2: true}, dir) != number {
		return gone, nil
	}
	first, empty := true, false
	err = wait(ctx, f, func(fd int) (bool, error) {
		var err error
		empty, err = emptied(fd)
		if first && !empty {
			first = false
		}
		return empty, err
	})
	if err != nil {
		return attest.Death{}, err
	}
	if first {
		return gone, nil
	}
	return attest.Death{At: a.cfg.Now(), How: containerEnded}, nil
}

// emptied reads cgroup.events anew. A cgroup that was removed has no processes.
func emptied(fd int) (bool, error) {
	b := make([]byte, 256)
	n, err := unix.Pread(fd, b, 0)
	if errors.Is(err, unix.ENODEV) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("attest/unixpeer: cgroup.events: %w", err)
	}
	left, err := populated(string(b[:n]))
	return err == nil && !left, err
}

// wait calls over whenever the kernel says that something about f has changed,
// until it says true. The runtime's poller waits for all files in one thread.
func wait(ctx context.Context, f *os.File, over func(fd int) (bool, error)) error {
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("attest/unixpeer: the kernel cannot wait for %s: %w", f.Name(), err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("attest/unixpeer: %w", err)
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		done, err := over(int(fd))
		failed = err
		return done || err != nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(failed, err)
}
