//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// refused are calls that tools expect to be forbidden. They fail with EPERM. A
// call that is neither here, nor allowed, nor has rules fails with ENOSYS, so
// that a program falls back to an older call.
var refused = []uint32{
	// A filter does not see the requests made through io_uring.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// Keyrings are not separated by namespaces.
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_USERFAULTFD, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_CHROOT, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
}

// families are the socket families that are bound to a network namespace or to
// a path.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

// typing are the ioctl(2) requests that inject input into a terminal.
var typing = []uint32{unix.TIOCSTI, unix.TIOCLINUX}

// namespaces are the flags of clone(2) and unshare(2) that create a namespace.
// CLONE_NEWTIME exists for unshare only: in clone the bit is part of the signal
// number.
const (
	namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	timeSpaces = namespaces | unix.CLONE_NEWTIME
)

// personalities are the allowed arguments of personality(2): Linux, also with
// 32-bit names (UNAME26, PER_LINUX32) or without address randomization, as
// debuggers set it; 0xffffffff queries.
var personalities = []uint32{0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff}
