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
	"ebb/cmd/ebb/internal/box/place"
)

// plan is a box as bubblewrap is told of it. Descriptors are numbers in bubblewrap.
type plan struct {
	spec    box.Spec
	mounts  []string       // options that mount
	data    map[string]int // descriptors of files by their paths in the box
	info    int
	filter  int
	status  int
	release int
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
	a = append(a, p.mounts...)
	for _, path := range slices.Sorted(maps.Keys(p.data)) {
		a = append(a, "--perms", "0444", "--ro-bind-data", strconv.Itoa(p.data[path]), path)
	}
	// What only mounts needed to be written to is no place to hide anything, nor to lay a
	// trap for whoever looks for a socket or a program there.
	a = append(a, "--remount-ro", "/run", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", box.WorkDir, "--info-fd", strconv.Itoa(p.info), "--add-seccomp-fd", strconv.Itoa(p.filter))
	return a
}

// staged mounts what has been mounted where who runs bubblewrap can go.
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

// handed mounts by descriptors: what is mounted is what was opened.
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

// shared are parts of the machine's /etc that programs need to start at all, and that say
// nothing of who uses the machine.
var shared = []string{
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/protocols",
	"/etc/services", "/etc/magic", "/etc/terminfo", "/etc/python3", "/etc/perl", "/etc/ssl/openssl.cnf", "/etc/crypto-policies",
}
