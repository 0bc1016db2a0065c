package doctest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside marks a test binary that Shell.Start started in a new network namespace.
const inside = "EBB_DOCTEST_INSIDE"

// start starts a program in a network namespace of its own whose loopback interface is up. A page
// then has every port of 127.0.0.1 for itself, beside other pages and other programs of the machine.
// A container may forbid that; the program then starts in the network of the machine.
func start(prepare func(*exec.Cmd), env []string, args ...string) (cmd *exec.Cmd, isolated bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, false, err
	}
	attr := syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	cmd = exec.Command(self, args...)
	cmd.Env = append(slices.Clone(env), inside+"=1")
	cmd.SysProcAttr = &attr
	prepare(cmd)
	if err = cmd.Start(); err == nil {
		return cmd, true, nil
	}
	cmd, err = startShared(prepare, env, args...)
	return cmd, false, err
}

// Listen listens on a TCP address in the network of the page. Only root can enter the network namespace
// of another process.
func (s *Shell) Listen(address string) (net.Listener, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer func() { _ = own.Close() }()
	page, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = page.Close() }()
	if err := unix.Setns(int(page.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back) // the thread would run other goroutines in the network of the page
	}
	return listener, err
}

// Inside must be the first statement of TestMain: in a process that Shell.Start started in a new
// network namespace it brings the loopback interface up and executes the program in the arguments.
func Inside() {
	if os.Getenv(inside) == "" {
		return
	}
	if err := execInside(); err != nil {
		fmt.Fprintln(os.Stderr, "doctest:", err)
		os.Exit(1)
	}
}

func execInside() error {
	if err := raiseLoopback(); err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		return err
	}
	// The page's programs do not inherit the capability that raised the interface. A capability
	// belongs to a thread.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return v == inside+"=1" })
	return syscall.Exec(path, os.Args[1:], env)
}

func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
