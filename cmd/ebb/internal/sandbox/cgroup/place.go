//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// controllers are the controllers that Limits needs.
var controllers = []string{"memory", "cpu", "pids"}

// parents returns the groups in which this process may be able to create one,
// the best first. A group with processes cannot enable controllers for groups
// below it, except the root of the hierarchy. So root creates groups in the
// root of the hierarchy, and other users beside the group of this process, in
// the slice that systemd has delegated to them.
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
		return nil, errors.New("this machine has no cgroups of version 2")
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

// mountOf returns the mount point of the version 2 hierarchy in
// /proc/self/mountinfo (proc_pid_mountinfo(5)); "" = not mounted.
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

// groupOf returns the version 2 group of this process in /proc/self/cgroup; ""
// = not visible in this namespace.
func groupOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		path, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if is && filepath.IsAbs(path) && filepath.Clean(path) == path {
			return path
		}
	}
	return ""
}

// enable enables the controllers for groups below parent, as far as it is
// permitted.
func enable(parent string) {
	for _, name := range controllers {
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0) // Make reports the limits without a controller
	}
}
