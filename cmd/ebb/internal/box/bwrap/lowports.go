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

	"ebb/cmd/ebb/internal/box"
)

// firstFree is the first port that needs no capability, if nobody says otherwise (ip(7)).
const firstFree = 1024

// lowPorts lets the box, which has no capability, listen on the ports of its hosts. That is a
// setting of its network namespace, which only who made that may change from outside: nsenter(1)
// does, because a process of one thread is needed to go there.
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
		return fmt.Errorf("the owner of the box's network: %w", err)
	}
	owner := os.NewFile(uintptr(fd), "userns")
	defer owner.Close()
	cmd := exec.Command("nsenter", "--user=/proc/self/fd/3", "--net=/proc/self/fd/4", "--preserve-credentials", "--", "sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start")
	cmd.ExtraFiles = []*os.File{owner, ns}
	if said, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%w: ports below %d cannot be opened in it: %w", box.ErrNone, firstFree, err), errors.New(string(said)))
	}
	return nil
}
