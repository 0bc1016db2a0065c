//go:build linux

package sandboxtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// try is a hostile program. Each word is one attempt, and each line of output
// is its result.
func try(words []string) {
	for _, word := range words {
		what, where, _ := strings.Cut(word, "=")
		fmt.Printf("%s: %v\n", word, Attempt(what, where))
	}
}

// Attempt makes one attempt.
func Attempt(what, where string) error {
	switch what {
	case "tcp", "udp", "unix":
		c, err := net.DialTimeout(what, where, 5*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("x"))
		return err
	case "lookup":
		_, err := net.LookupHost(where)
		return err
	case "write":
		return os.WriteFile(where, []byte("x"), 0o600)
	case "read":
		_, err := os.ReadFile(where)
		return err
	case "list":
		_, err := os.ReadDir(where)
		return err
	case "socket":
		return socket(where)
	case "socketpair":
		_, err := unix.Socketpair(families[where][0], unix.SOCK_SEQPACKET, families[where][1])
		return err
	case "userns":
		return unix.Unshare(unix.CLONE_NEWUSER)
	case "spawn":
		return spawn()
	case "stop-shim":
		return stopShim()
	case "stay":
		time.Sleep(time.Hour)
		return nil
	}
	return call(what)
}

var families = map[string][2]int{
	"unix": {unix.AF_UNIX, 0}, "inet": {unix.AF_INET, 0}, "inet6": {unix.AF_INET6, 0}, "route": {unix.AF_NETLINK, unix.NETLINK_ROUTE},
	"vsock": {unix.AF_VSOCK, 0}, "packet": {unix.AF_PACKET, 0}, "audit": {unix.AF_NETLINK, unix.NETLINK_AUDIT}, "alg": {unix.AF_ALG, 0}, "xdp": {unix.AF_XDP, 0}, "tipc": {unix.AF_TIPC, 0},
}

func socket(name string) error {
	kind := unix.SOCK_STREAM
	if f := families[name][0]; f == unix.AF_NETLINK || f == unix.AF_PACKET {
		kind = unix.SOCK_RAW
	}
	if name == "alg" {
		kind = unix.SOCK_SEQPACKET
	}
	fd, err := unix.Socket(families[name][0], kind, families[name][1])
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// call makes a system call with arguments that do no harm if the filter lets it
// through.
func call(name string) error {
	zero := make([]byte, 256)
	at := uintptr(unsafe.Pointer(&zero[0]))
	calls := map[string][4]uintptr{
		"getpid": {unix.SYS_GETPID}, "io_uring_setup": {unix.SYS_IO_URING_SETUP, 1, at}, "keyctl": {unix.SYS_KEYCTL, 0, 0}, "add_key": {unix.SYS_ADD_KEY},
		"userfaultfd": {unix.SYS_USERFAULTFD}, "bpf": {unix.SYS_BPF, 0, at, 8}, "perf_event_open": {unix.SYS_PERF_EVENT_OPEN, at}, "mount": {unix.SYS_MOUNT},
		"setns": {unix.SYS_SETNS}, "open_by_handle_at": {unix.SYS_OPEN_BY_HANDLE_AT}, "kexec_load": {unix.SYS_KEXEC_LOAD}, "init_module": {unix.SYS_INIT_MODULE},
		"tiocsti": {unix.SYS_IOCTL, 0, unix.TIOCSTI, at}, "tiocsti-high": {unix.SYS_IOCTL, 0, unix.TIOCSTI | 1<<32, at}, "tiocgwinsz": {unix.SYS_IOCTL, 0, unix.TIOCGWINSZ, at},
		"clone-newuser": {unix.SYS_CLONE, unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)}, "clone-newnet": {unix.SYS_CLONE, unix.CLONE_NEWNET | uintptr(unix.SIGCHLD)},
		"unshare-newuser": {unix.SYS_UNSHARE, unix.CLONE_NEWUSER}, "unshare-newtime": {unix.SYS_UNSHARE, unix.CLONE_NEWTIME}, "unshare-files": {unix.SYS_UNSHARE, unix.CLONE_FILES},
		"personality": {unix.SYS_PERSONALITY, 0x400000}, "personality-get": {unix.SYS_PERSONALITY, 0xffffffff}, "chroot": {unix.SYS_CHROOT, at},
		"clone3": {unix.SYS_CLONE3}, "lookup_dcookie": {unix.SYS_LOOKUP_DCOOKIE}, "set_mempolicy": {unix.SYS_SET_MEMPOLICY}, "kcmp": {unix.SYS_KCMP}, "memfd_secret": {unix.SYS_MEMFD_SECRET}, "no-such-call": {0x3fff},
		"x32": {0x40000000 | unix.SYS_GETPID}, "ptrace-shim": {unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1},
	}
	a, known := calls[name]
	if !known {
		panic(name)
	}
	_, _, errno := unix.Syscall(a[0], a[1], a[2], a[3])
	if errno != 0 {
		return errno
	}
	return nil
}

// stopShim stops the first process of the sandbox, by ptrace, while this
// process lives.
func stopShim() error {
	signal.Ignore()
	runtime.LockOSThread() // never unlocked: a tracing thread that ends releases its tracees
	stopped := map[string]bool{}
	for before := -1; len(stopped) > before; { // a thread may start meanwhile
		before = len(stopped)
		threads, err := os.ReadDir("/proc/1/task")
		if err != nil {
			return err
		}
		for _, one := range threads {
			if stopped[one.Name()] {
				continue
			}
			id, err := strconv.Atoi(one.Name())
			if err != nil {
				return err
			}
			if err := unix.PtraceAttach(id); err != nil {
				return err
			}
			if _, err := unix.Wait4(id, nil, unix.WALL, nil); err != nil {
				return err
			}
			stopped[one.Name()] = true
		}
	}
	return nil
}

// spawn starts processes until the kernel refuses, and returns how many it
// started.
func spawn() error {
	for n := 0; ; n++ {
		if n > 5000 {
			return nil
		}
		if err := exec.Command("sleep", "600").Start(); err != nil {
			return fmt.Errorf("after %d: %w", n, err)
		}
	}
}
