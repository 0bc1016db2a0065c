//go:build linux

package bwrap

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/place"
)

// plan is a sandbox in terms of bubblewrap's options. Descriptors are numbers
// in bubblewrap.
type plan struct {
	spec    box.Spec
	mounts  []string       // mount options
	data    map[string]int // descriptors of files by their paths in the sandbox
	info    int
	filter  int
	status  int
	release int
}

// options returns bubblewrap's options, in the order in which bubblewrap
// applies them.
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
	a = append(a, p.mounts...)
	for _, path := range slices.Sorted(maps.Keys(p.data)) {
		a = append(a, "--perms", "0444", "--ro-bind-data", strconv.Itoa(p.data[path]), path)
	}
	// Directories that only mounts needed to be writable become read-only, so
	// that the sandbox can neither hide files there nor place a fake socket or
	// program.
	a = append(a, "--remount-ro", "/run", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", box.WorkDir, "--info-fd", strconv.Itoa(p.info), "--add-seccomp-fd", strconv.Itoa(p.filter))
	return a
}

// staged mounts the paths that stage has mounted where bubblewrap's user can
// reach them.
func staged(all place.Mounts, at []string) (options []string) {
	for i, m := range all {
		how := "--ro-bind"
		if m.Write {
			how = "--bind"
		}
		options = append(options, how, at[i], m.To)
	}
	return options
}

// handed mounts by descriptor, so that the opened file is mounted even if its
// path is replaced.
func handed(all place.Mounts, f *files) (options []string) {
	for _, m := range all {
		how := "--ro-bind-fd"
		if m.Write {
			how = "--bind-fd"
		}
		options = append(options, how, strconv.Itoa(f.lend(m.From)), m.To)
	}
	return options
}

// programs are the directories of programs of the machine, or the same links
// into /usr.
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

// shim is the command line of the first process in the sandbox.
func (p *plan) shim() []string {
	s := p.spec
	a := []string{box.Self, "shim", "--status-fd", strconv.Itoa(p.status), "--release-fd", strconv.Itoa(p.release), "--processes", strconv.FormatUint(s.Limits.Processes, 10), "--files", strconv.FormatUint(s.Limits.Files, 10)}
	for _, port := range slices.Sorted(maps.Keys(s.Ports)) {
		a = append(a, "--port", fmt.Sprintf("%d=%s", port, s.Ports[port]))
	}
	for _, d := range s.Direct {
		a = append(a, "--direct", d.Listen()+"="+d.Host())
	}
	if s.TTY {
		a = append(a, "--tty")
	}
	return append(append(a, "--"), s.Argv...)
}

// shared are parts of the machine's /etc that programs need to start, and that
// contain nothing about the users of the machine.
var shared = []string{
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/protocols",
	"/etc/services", "/etc/magic", "/etc/terminfo", "/etc/python3", "/etc/perl", "/etc/ssl/openssl.cnf", "/etc/crypto-policies",
}
