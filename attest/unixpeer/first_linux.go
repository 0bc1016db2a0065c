package unixpeer

import (
	"errors"
	"path/filepath"
	"strconv"
)

// maxDepth is how many parents are asked, and walks how often: on the way a parent
// can end and its children get another.
const (
	maxDepth = 256
	walks    = 3
)

var errFirst = errors.New("the first process of its process namespace is not among its parents")

// first is the process with whose end the kernel ends all others of a process
// namespace (pid_namespaces(7)), and when it started. The caller sees to it that
// pid, which is in that namespace, is alive before and after: then so was the
// first, and its number was nobody else's.
func (a *Attestor) first(pid int, pidns uint64) (number int, start uint64, err error) {
	for range walks {
		if number, start, err = a.walk(pid, pidns); err == nil {
			return number, start, nil
		}
	}
	return 0, 0, err
}

func (a *Attestor) walk(pid int, pidns uint64) (number int, start uint64, err error) {
	for range maxDepth {
		dir := filepath.Join(a.cfg.Proc, strconv.Itoa(pid))
		if inode, err := namespace(dir, "pid", 0, -1); err != nil || inode != pidns {
			return 0, 0, errors.Join(errFirst, err)
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
		if parent == 0 { // it is outside of what ebb sees
			return 0, 0, errFirst
		}
		pid = parent
	}
	return 0, 0, errFirst
}
