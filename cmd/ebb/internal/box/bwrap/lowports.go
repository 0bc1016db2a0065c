//go:build linux

package bwrap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
)

// firstFree is the first port that needs no capability by default (ip(7)).
const firstFree = 1024

// lowPorts lets the sandbox, which has no capabilities, listen on the low ports
// of its hosts. The setting belongs to its network namespace, and only the user
// that created the namespace may change it from outside. nsenter(1) does that,
// because only a process with a single thread can enter the user namespace.
func lowPorts(pid int, hosts []box.Direct) error {
	if !slices.ContainsFunc(hosts, func(d box.Direct) bool { return d.Port < firstFree }) {
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
		return errors.Join(fmt.Errorf("%w: allow ports below %d in the sandbox: %w", box.ErrNone, firstFree, err), errors.New(string(said)))
	}
	return nil
}
