//go:build linux

package bwrap

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place"
)

// plan is a sandbox in terms of bubblewrap's options. Descriptors are numbers
// in bubblewrap.
type plan struct {
	spec    sandbox.Spec
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
	a := []string{"--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1", "--hostname", sandbox.User, "--clearenv"}
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
	for _, dir := range []string{"/tmp", "/var/tmp", sandbox.Home, "/dev/shm"} {
		a = append(a, "--size", size, "--tmpfs", dir)
	}
	a = append(a, "--perms", "0755", "--tmpfs", "/run", "--perms", "0755", "--dir", sandbox.Dir)
	a = append(a, p.mounts...)
	for _, path := range slices.Sorted(maps.Keys(p.data)) {
		a = append(a, "--perms", "0444", "--ro-bind-data", strconv.Itoa(p.data[path]), path)
	}
	// Directories that only mounts needed to be writable become read-only, so
	// that the sandbox can neither hide files there nor place a fake socket or
	// program.
	a = append(a, "--remount-ro", "/run", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", sandbox.WorkDir, "--info-fd", strconv.Itoa(p.info), "--add-seccomp-fd", strconv.Itoa(p.filter))
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
	a := []string{sandbox.Self, "shim", "--status-fd", strconv.Itoa(p.status), "--release-fd", strconv.Itoa(p.release), "--processes", strconv.FormatUint(s.Limits.Processes, 10), "--files", strconv.FormatUint(s.Limits.Files, 10)}
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

// stageDir is the mount point of the stage and hides the directory below, which
// no sandbox ever has and bubblewrap does not need.
const stageDir = "/sys"

// stage lets root start a sandbox as another user although the paths of the
// sandbox may be accessible to root only. It mounts them again where every user
// can reach them, in a mount namespace of this thread and its child processes.
// The calling thread must be locked and must end with the sandbox. The result
// is the mount points, in the order of all.
func stage(all place.Mounts) ([]string, error) {
	trees := make([]int, 0, len(all)) // taken before unshare: a mount namespace cannot mount trees of another
	defer func() {
		for _, tree := range trees {
			_ = unix.Close(tree)
		}
	}()
	for _, m := range all {
		tree, err := unix.OpenTree(int(m.From.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
		if err != nil {
			return nil, fmt.Errorf("%w: open_tree %s: %w", sandbox.ErrNone, m.From.Name(), err)
		}
		trees = append(trees, tree)
	}
	err := wrap("unshare", unix.Unshare(unix.CLONE_NEWNS))
	if err == nil {
		err = wrap("mount", unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""))
	}
	if err == nil {
		err = wrap("mount", unix.Mount("ebb", stageDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0711,size=64k"))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	var at []string
	for i, m := range all {
		to := filepath.Join(stageDir, strconv.Itoa(i))
		info, err := m.From.Stat()
		switch {
		case err == nil && info.IsDir():
			err = os.Mkdir(to, 0o700)
		case err == nil:
			err = os.WriteFile(to, nil, 0o600)
		}
		if err == nil {
			err = wrap("move_mount", unix.MoveMount(trees[i], "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
		}
		at = append(at, to)
	}
	return at, nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// firstFree is the first port that needs no capability by default (ip(7)).
const firstFree = 1024

// lowPorts lets the sandbox, which has no capabilities, listen on the low ports
// of its hosts. The setting belongs to its network namespace, and only the user
// that created the namespace may change it from outside. nsenter(1) does that,
// because only a process with a single thread can enter the user namespace.
func lowPorts(pid int, hosts []sandbox.Direct) error {
	if !slices.ContainsFunc(hosts, func(d sandbox.Direct) bool { return d.Port < firstFree }) {
		return nil
	}
	ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/net")
	if err != nil {
		return err
	}
	defer ns.Close()
	fd, err := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return fmt.Errorf("get the user namespace of the sandbox's network: %w", err)
	}
	owner := os.NewFile(uintptr(fd), "userns")
	defer owner.Close()
	cmd := exec.Command("nsenter", "--user=/proc/self/fd/3", "--net=/proc/self/fd/4", "--preserve-credentials", "--", "sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start")
	cmd.ExtraFiles = []*os.File{owner, ns}
	if said, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%w: allow ports below %d in the sandbox: %w", sandbox.ErrNone, firstFree, err), errors.New(string(said)))
	}
	return nil
}
