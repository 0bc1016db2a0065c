package unixpeer

import (
	"errors"
	"path/filepath"
	"strconv"
)

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
