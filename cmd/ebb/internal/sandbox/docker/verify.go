//go:build linux

package docker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place"
)

// verify checks the first process of a container with the kernel, before CMD
// runs: a daemon's configuration can turn the same arguments into a container
// that is not isolated.
func verify(pid int, user sandbox.Owner, m place.Mounts) (sandbox.Identity, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return sandbox.Identity{}, err
	}
	if err := checkStatus(string(text), user); err != nil {
		return sandbox.Identity{}, err
	}
	id := sandbox.Identity{PID: pid}
	for name, into := range map[string]*uint64{"net": &id.NetNS, "pid": &id.PIDNS, "mnt": new(uint64), "ipc": new(uint64), "uts": new(uint64), "cgroup": new(uint64)} {
		if *into, err = apart(dir, name); err != nil {
			return sandbox.Identity{}, err
		}
	}
	devices, err := os.ReadFile(dir + "/net/dev")
	if err != nil {
		return sandbox.Identity{}, err
	}
	if err := checkNetwork(string(devices)); err != nil {
		return sandbox.Identity{}, err
	}
	return id, checkMounts(dir+"/root", m)
}

// checkNetwork checks /proc/pid/net/dev (proc_pid_net(5)): two heading lines,
// and one line for each interface.
func checkNetwork(text string) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 2 {
		return errors.New("/proc/pid/net/dev of the container has no headings")
	}
	for _, line := range lines[2:] {
		if name, _, _ := strings.Cut(line, ":"); strings.TrimSpace(name) != "lo" {
			return fmt.Errorf("the container has a network interface besides loopback (%q)", strings.TrimSpace(name))
		}
	}
	return nil
}

// apart returns the inode of a namespace of the process, which must not be that
// of this process.
func apart(dir, name string) (uint64, error) {
	theirs, err := os.Stat(dir + "/ns/" + name)
	if err != nil {
		return 0, err
	}
	ours, err := os.Stat("/proc/self/ns/" + name)
	if err != nil {
		return 0, err
	}
	if os.SameFile(theirs, ours) {
		return 0, fmt.Errorf("the container shares a namespace (%s) with this machine", name)
	}
	return theirs.Sys().(*syscall.Stat_t).Ino, nil
}

// wanted are lines of /proc/pid/status (proc_pid_status(5)) of a process
// without privileges.
var wanted = map[string]string{
	"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
	"NoNewPrivs": "1", "Seccomp": "2",
}

// checkStatus checks /proc/pid/status. A missing line is an error.
func checkStatus(text string, user sandbox.Owner) error {
	is := map[string][]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		is[name] = strings.Fields(value)
	}
	for name, value := range wanted {
		if !slices.Equal(is[name], []string{value}) {
			return fmt.Errorf("the container has %s %s, so it is not isolated", name, strings.Join(is[name], " "))
		}
	}
	uid, gid := strconv.FormatUint(uint64(user.UID), 10), strconv.FormatUint(uint64(user.GID), 10)
	other := func(of string) func(string) bool { return func(s string) bool { return s != of } }
	switch nspid := is["NSpid"]; {
	case len(is["Uid"]) != 4 || slices.ContainsFunc(is["Uid"], other(uid)), len(is["Gid"]) != 4 || slices.ContainsFunc(is["Gid"], other(gid)):
		return fmt.Errorf("the container runs as user %s, group %s of this machine and not as %s:%s: its daemon is rootless or remaps users", strings.Join(is["Uid"], " "), strings.Join(is["Gid"], " "), uid, gid)
	case slices.ContainsFunc(is["Groups"], other(gid)):
		return fmt.Errorf("the container has the additional groups %s", strings.Join(is["Groups"], " "))
	case len(nspid) < 2 || nspid[len(nspid)-1] != "1":
		return errors.New("the process that connected is not the first one of a container")
	}
	return nil
}

// checkMounts compares the files opened before with those mounted: the daemon
// gets paths, and a path may lead elsewhere since it was checked.
func checkMounts(root string, m place.Mounts) error {
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(top)
	if err := readOnly(top); err != nil {
		return fmt.Errorf("the root of the container: %w", err)
	}
	for _, one := range m {
		fd, err := unix.Openat2(top, one.To, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return fmt.Errorf("%s of the container: %w", one.To, err)
		}
		var inside, outside unix.Stat_t
		err = errors.Join(unix.Fstat(fd, &inside), unix.Fstat(int(one.From.Fd()), &outside))
		if err == nil && !one.Write {
			err = readOnly(fd)
		}
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("%s of the container: %w", one.To, err)
		}
		if inside.Dev != outside.Dev || inside.Ino != outside.Ino {
			return fmt.Errorf("%w: %s of the container is not the file that was checked", sandbox.ErrPlace, one.To)
		}
	}
	return nil
}

// readOnly checks that a file is on a read-only mount (statfs(2), ST_RDONLY).
func readOnly(fd int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY == 0 {
		return errors.New("it is writable")
	}
	return nil
}
