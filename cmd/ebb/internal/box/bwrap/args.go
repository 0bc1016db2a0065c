//go:build linux

package bwrap

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"ebb/cmd/ebb/internal/box"
)

// plan is a box as bubblewrap is told of it. Descriptors are numbers in bubblewrap.
type plan struct {
	spec   box.Spec
	self   string
	place  func(string) string // where a place of the machine is for who runs bubblewrap
	data   map[string]int      // descriptors of files by their paths in the box
	info   int
	block  int
	filter int
	status int
}

// options are bubblewrap's: what the box is made of, in the order in which it is made.
func (p *plan) options() []string {
	s := p.spec
	a := []string{"--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1", "--hostname", box.User, "--clearenv"}
	for _, line := range s.Env {
		name, value, _ := strings.Cut(line, "=")
		a = append(a, "--setenv", name, value)
	}
	a = append(a, p.programs()...)
	a = append(a, "--perms", "0755", "--dir", "/etc")
	for _, path := range shared {
		a = append(a, "--ro-bind-try", path, path)
	}
	a = append(a, "--proc", "/proc", "--dev", "/dev")
	size := strconv.FormatUint(s.Limits.Temporary, 10)
	for _, dir := range []string{"/tmp", "/var/tmp", box.Home, "/dev/shm"} {
		a = append(a, "--size", size, "--tmpfs", dir)
	}
	a = append(a, "--perms", "0755", "--tmpfs", "/run", "--perms", "0755", "--dir", box.Dir)
	for _, path := range s.Read {
		a = append(a, "--ro-bind", p.place(path), path)
	}
	a = append(a, "--bind", p.place(s.Work), box.WorkDir, "--ro-bind", p.place(p.self), box.Self)
	for _, name := range slices.Sorted(maps.Keys(s.Sockets)) {
		a = append(a, "--ro-bind", p.place(s.Sockets[name]), box.Dir+"/"+name)
	}
	for _, path := range slices.Sorted(maps.Keys(p.data)) {
		a = append(a, "--perms", "0444", "--ro-bind-data", strconv.Itoa(p.data[path]), path)
	}
	// What only mounts needed to be written to is no place to hide anything, nor to lay a
	// trap for whoever looks for a socket or a program there.
	a = append(a, "--remount-ro", "/run", "--remount-ro", "/", "--chdir", box.WorkDir,
		"--info-fd", strconv.Itoa(p.info), "--block-fd", strconv.Itoa(p.block), "--add-seccomp-fd", strconv.Itoa(p.filter))
	return a
}

// programs are the machine's, as it has them: directories, or links into /usr.
func (p *plan) programs() []string {
	a := []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		target, err := os.Readlink(dir)
		if err == nil {
			a = append(a, "--symlink", target, dir)
		} else {
			a = append(a, "--ro-bind-try", dir, dir)
		}
	}
	return a
}

// shim is the command line of the first process.
func (p *plan) shim() []string {
	s := p.spec
	a := []string{box.Self, "shim", "--status-fd", strconv.Itoa(p.status), "--processes", strconv.FormatUint(s.Limits.Processes, 10), "--files", strconv.FormatUint(s.Limits.Files, 10)}
	for _, port := range slices.Sorted(maps.Keys(s.Ports)) {
		a = append(a, "--port", fmt.Sprintf("%d=%s", port, s.Ports[port]))
	}
	if s.TTY {
		a = append(a, "--tty")
	}
	return append(append(a, "--"), s.Argv...)
}
