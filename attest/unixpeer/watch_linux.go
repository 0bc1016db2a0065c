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

	"github.com/ebb-broker/ebb/attest"
)

// watchProcess waits until the process with this PID and start time has exited. It
// blocks no thread: a pidfd becomes readable when its process exits.
func (a *Attestor) watchProcess(ctx context.Context, pid int, start uint64) (attest.Exit, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return attest.Exit{}, nil
	}
	if err != nil {
		return attest.Exit{}, fmt.Errorf("attest/unixpeer: pidfd_open: %w", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close() //nolint:errcheck // nothing was written
	_, now, err := a.stat(pid)
	if errors.Is(err, fs.ErrNotExist) || err == nil && now != start {
		return attest.Exit{}, nil // the process has exited; its PID is free or reused
	}
	if err != nil {
		return attest.Exit{}, fmt.Errorf("attest/unixpeer: %w", err)
	}
	if dead, err := exited(fd); dead || err != nil {
		return attest.Exit{}, err
	}
	err = wait(ctx, f, func(fd int) (bool, error) { return exited(fd) })
	if err != nil {
		return attest.Exit{}, err
	}
	return attest.Exit{At: a.cfg.Now()}, nil
}

// watchCgroup waits until the cgroup and those below it have no processes.
func (a *Attestor) watchCgroup(ctx context.Context, dir string, number uint64) (attest.Exit, error) {
	gone := attest.Exit{How: containerEnded}
	f, err := os.Open(filepath.Join(a.cgroups, dir, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return gone, nil
	}
	if err != nil {
		return attest.Exit{}, fmt.Errorf("attest/unixpeer: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	// A new cgroup may have the same name.
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
		return attest.Exit{}, err
	}
	if first {
		return gone, nil
	}
	return attest.Exit{At: a.cfg.Now(), How: containerEnded}, nil
}

// emptied reads cgroup.events again. It returns true for a removed cgroup.
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

// wait calls over after each change that the kernel reports for f, until over returns
// true or an error. The poller of the Go runtime waits for all files in one thread.
func wait(ctx context.Context, f *os.File, over func(fd int) (bool, error)) error {
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("attest/unixpeer: the kernel cannot report changes of %s: %w", f.Name(), err)
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
