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

// ioctl requests of the kernel's pidfd.h that return a descriptor of a namespace of the
// process (Linux 6.11).
const (
	pidfdGetNetNamespace  = 0xff04
	pidfdGetPIDNamespace  = 0xff05
	pidfdGetUserNamespace = 0xff09
)

// maxProc is the maximum size of a file of procfs that is read.
const maxProc = 1 << 20

// exited reports whether the process of a pidfd has exited. A zombie, for which its
// parent has not waited yet, counts as exited; kill(2) with signal 0 would succeed.
func exited(pidfd int) (bool, error) {
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(p, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false, fmt.Errorf("pidfd: %w", err)
		case p[0].Revents&unix.POLLNVAL != 0:
			return false, errors.New("pidfd: the descriptor is closed")
		default:
			return p[0].Revents != 0, nil
		}
	}
}

// readFacts reads the facts about a process. The caller checks that the process is
// alive before and after.
func readFacts(proc string, pid, pidfd int) (facts, error) {
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

// namespace returns the inode of a namespace of a process. It asks the pidfd, and reads
// procfs on kernels before Linux 6.11.
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
		return "", fmt.Errorf("%s has more than %d bytes or a zero byte, so it is not a file of procfs", path, maxProc)
	}
	return string(b), nil
}

// ownFacts returns the facts about ebb's own process, an identifier of this boot of this
// machine, and the mount point of cgroup v2.
func ownFacts(proc string) (f facts, host, cgroups string) {
	f, err := readFacts(proc, os.Getpid(), -1)
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

// cgroupID returns the inode of a cgroup, which the kernel does not reuse until a reboot.
// It returns 0 when the inode is unknown. A path with .. is outside ebb's cgroup
// namespace.
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

// stat returns the parent and the start time of the process with this PID. The error
// is fs.ErrNotExist when there is none.
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

// maxDepth is how many ancestors findInit visits. maxAttempts is how often initProcess
// calls it, because a parent can exit during the visit, and its children then get
// another parent.
const (
	maxDepth    = 256
	maxAttempts = 3
)

var errNoInit = errors.New("the init process of the process namespace is not an ancestor of the process, or not visible to ebb")

// initProcess returns the PID and the start time of the init process of a process
// namespace. When it exits, the kernel kills all other processes of the namespace
// (pid_namespaces(7)). pid is a process in that namespace. The caller checks that it is
// alive before and after the call; then the init process was alive too, and its PID was
// not reused.
func (a *Attestor) initProcess(pid int, pidns uint64) (number int, start uint64, err error) {
	for range maxAttempts {
		if number, start, err = a.findInit(pid, pidns); err == nil {
			return number, start, nil
		}
	}
	return 0, 0, err
}

// findInit visits the ancestors of pid until it finds the init process.
func (a *Attestor) findInit(pid int, pidns uint64) (number int, start uint64, err error) {
	for range maxDepth {
		dir := filepath.Join(a.cfg.Proc, strconv.Itoa(pid))
		if inode, err := namespace(dir, "pid", 0, -1); err != nil || inode != pidns {
			return 0, 0, errors.Join(errNoInit, err)
		}
		parent, start, err := a.stat(pid)
		if err != nil {
			return 0, 0, err
		}
		status, err := readProc(filepath.Join(dir, "status"))
		if err != nil {
			return 0, 0, err
		}
		if parseInner(status) == 1 {
			return pid, start, nil
		}
		if parent == 0 { // the parent is outside ebb's process namespace
			return 0, 0, errNoInit
		}
		pid = parent
	}
	return 0, 0, errNoInit
}
