//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// controllers bound what Limits has.
var controllers = []string{"memory", "cpu", "pids"}

// parents are groups in which this process may perhaps make one, the best first. A group with
// processes in it has no groups with controllers below it, but for the first of all: so what
// root makes is there, and what others make is beside this process's own, in the slice that
// systemd has given them.
func parents() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	root, own := mountOf(string(mounts)), groupOf(string(groups))
	if root == "" || own == "" {
		return nil, errors.New("there are no cgroups of version 2 here")
	}
	own = filepath.Join(root, own)
	if os.Geteuid() == 0 {
		return []string{root, own}, nil
	}
	if own == root {
		return []string{own}, nil
	}
	return []string{filepath.Dir(own), own}, nil
}

// mountOf is where the hierarchy of version 2 is mounted, as /proc/self/mountinfo has it
// (proc_pid_mountinfo(5)); "" = nowhere.
func mountOf(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, two := strings.Cut(line, " - ")
		field, kind := strings.Fields(before), strings.Fields(after)
		if two && len(field) > 4 && len(kind) > 0 && kind[0] == "cgroup2" && field[3] == "/" && !strings.Contains(field[4], `\`) {
			return field[4]
		}
	}
	return ""
}

// groupOf is this process's group of version 2, as /proc/self/cgroup has it; "" = none that can be
// seen from here.
func groupOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		path, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if is && filepath.IsAbs(path) && filepath.Clean(path) == path {
			return path
		}
	}
	return ""
}

// enable has groups below parent bounded, as far as may be.
func enable(parent string) {
	for _, name := range controllers {
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0) // Make sees which are there
	}
}
