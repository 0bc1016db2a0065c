package unixpeer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Requests of the kernel's pidfd.h: a descriptor of a namespace of the process
// (Linux 6.11).
const (
	pidfdGetNetNamespace  = 0xff04
	pidfdGetPIDNamespace  = 0xff05
	pidfdGetUserNamespace = 0xff09
)

// maxProc bounds a file of procfs.
const maxProc = 1 << 20

// exited reports whether the process of a pidfd has ended; one that nobody has
// waited for has. A signal 0 would still reach it.
func exited(pidfd int) (bool, error) {
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(p, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false, fmt.Errorf("pidfd: %w", err)
		case p[0].Revents&unix.POLLNVAL != 0:
			return false, errors.New("pidfd: it is closed")
		default:
			return p[0].Revents != 0, nil
		}
	}
}

// look reads what is known of a process; the caller sees to it that it is alive
// before and after.
func look(proc string, pid, pidfd int) (facts, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	var f facts
	stat, err := readProc(filepath.Join(dir, "stat"))
	if err != nil {
		return f, err
	}
	if _, f.start, err = parseStat(stat); err != nil {
		return f, err
	}
	groups, err := readProc(filepath.Join(dir, "cgroup"))
	if err != nil {
		return f, err
	}
	if f.cgroup, err = parseCgroup(groups); err != nil {
		return f, err
	}
	for _, ns := range []struct {
		kind string
		get  uint
		to   *uint64
	}{{"net", pidfdGetNetNamespace, &f.netns}, {"pid", pidfdGetPIDNamespace, &f.pidns}, {"user", pidfdGetUserNamespace, &f.userns}} {
		if *ns.to, err = namespace(dir, ns.kind, ns.get, pidfd); err != nil {
			f.unreadable = err
		}
	}
	return f, nil
}

// namespace asks the pidfd, and procfs where the kernel is too old for that.
func namespace(dir, kind string, get uint, pidfd int) (uint64, error) {
	if pidfd >= 0 {
		if fd, err := unix.IoctlRetInt(pidfd, get); err == nil {
			defer unix.Close(fd) //nolint:errcheck // nothing was written
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return 0, err
			}
			return st.Ino, nil
		}
	}
	text, err := os.Readlink(filepath.Join(dir, "ns", kind))
	if err != nil {
		return 0, err
	}
	return parseLink(kind, text)
}

// readProc reads a small file of procfs.
func readProc(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxProc+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxProc || bytes.IndexByte(b, 0) >= 0 {
		return "", fmt.Errorf("%s is not as procfs makes it", path)
	}
	return string(b), nil
}

// self is ebb's own process, which machine and boot this is, and where cgroup v2
// is mounted.
func self(proc string) (f facts, host, cgroups string) {
	f, err := look(proc, os.Getpid(), -1)
	boot, bootErr := readProc(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err == nil && bootErr == nil && f.pidns != 0 {
		host = strings.TrimSpace(boot) + "/" + strconv.FormatUint(f.pidns, 10)
	}
	mounts, err := readProc(filepath.Join(proc, "self/mountinfo"))
	if err == nil {
		cgroups = parseMount(mounts)
	}
	return f, host, cgroups
}

// cgroupID is the number of a cgroup, which is used once per boot; 0 when it
// cannot be told. A path with .. is outside of what ebb sees.
func (a *Attestor) cgroupID(c cgroup, dir string) uint64 {
	if !c.v2 || a.cgroups == "" || strings.Contains(dir+"/", "/../") {
		return 0
	}
	var st unix.Stat_t
	if unix.Stat(a.cgroups+dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0
	}
	return st.Ino
}

// stat is the parent of the process of a number and when it started, fs.ErrNotExist
// when there is none.
func (a *Attestor) stat(pid int) (parent int, start uint64, err error) {
	text, err := readProc(filepath.Join(a.cfg.Proc, strconv.Itoa(pid), "stat"))
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, 0, err
	}
	return parseStat(text)
}
