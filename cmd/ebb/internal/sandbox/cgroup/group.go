//go:build linux

package cgroup

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// prefix is the prefix of the names of groups.
const prefix = "ebb-"

// Group is a cgroup for the processes of one sandbox.
type Group struct {
	path string
	dir  *os.File
}

// Make creates a group with limits. unbound names the kernel's files of the
// limits that could not be set. Make fails if the group has no cgroup.kill
// (Linux before 5.14).
func Make(l Limits) (g *Group, unbound []string, err error) {
	places, err := parents()
	if err != nil {
		return nil, nil, err
	}
	for _, parent := range places {
		enable(parent)
		g, unbound, one := makeIn(parent, l)
		if one == nil {
			return g, unbound, nil
		}
		err = errors.Join(err, one)
	}
	return nil, nil, fmt.Errorf("this user cannot create a cgroup: %w", err)
}

func makeIn(parent string, l Limits) (*Group, []string, error) {
	path := filepath.Join(parent, prefix+strings.ToLower(rand.Text()))
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, nil, err
	}
	g := &Group{path: path}
	unbound, err := g.bound(l, swaps())
	if err == nil {
		_, err = os.Stat(filepath.Join(path, "cgroup.kill")) // Linux 5.14
	}
	if err == nil {
		g.dir, err = os.Open(path)
	}
	if err != nil {
		_ = os.Remove(path)
		return nil, nil, err
	}
	return g, unbound, nil
}

// bound writes the limits. It returns the files of those whose controller is
// not enabled, except a missing swap limit on a machine without swap.
func (g *Group) bound(l Limits, swap bool) (unbound []string, err error) {
	for _, f := range l.files() {
		to, err := os.OpenFile(filepath.Join(g.path, f.file), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			if f.file != swapFile || swap {
				unbound = append(unbound, f.file)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		_, err = to.WriteString(f.text)
		if err = errors.Join(err, to.Close()); err != nil {
			return nil, err
		}
	}
	return unbound, nil
}

// swaps reports whether the machine has swap, and true if that cannot be read.
func swaps() bool {
	text, err := os.ReadFile("/proc/swaps")
	return err != nil || hasSwap(text)
}

// hasSwap reports whether the content of /proc/swaps (proc_swaps(5)) has more
// than its heading.
func hasSwap(text []byte) bool { return bytes.Count(text, []byte("\n")) != 1 }

// Dir is the group's directory, to start a process in it (clone(2),
// CLONE_INTO_CGROUP).
func (g *Group) Dir() *os.File { return g.dir }

// Path is the path of the group, for Remove.
func (g *Group) Path() string { return g.path }

// kill kills all processes of a group at once, including those that they fork
// meanwhile.
func kill(path string) error {
	return os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0)
}

// patience is how long Remove waits until the killed processes are gone.
const patience = 5 * time.Second

// Close kills the remaining processes of the group and removes it.
func (g *Group) Close() error {
	defer g.dir.Close()
	return Remove(g.path)
}

// Remove kills the remaining processes of a group made by Make, also in an
// earlier process, and removes it. It succeeds if the group does not exist.
func Remove(path string) error {
	if !strings.HasPrefix(filepath.Base(path), prefix) {
		return fmt.Errorf("%s is not a cgroup of ebb", path)
	}
	if err := kill(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := os.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(end) {
			return err
		}
	}
}
