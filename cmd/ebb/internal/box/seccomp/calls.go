//go:build linux

package seccomp

import "golang.org/x/sys/unix"

// refused are calls that tools know may be forbidden. They fail as if without permission (EPERM). Calls that are
// neither here, nor allowed, nor have rules do not exist for a box (ENOSYS), so that a program falls back.
var refused = []uint32{
	// A request that io_uring makes is seen by no filter.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// Keyrings know no namespaces.
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

// families are the kinds of sockets that a network namespace holds, or that need a path.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

// typing are the requests of ioctl(2) that put input into a terminal.
var typing = []uint32{unix.TIOCSTI, unix.TIOCLINUX}

// namespaces are the flags of clone(2) and unshare(2) that make a namespace. A new time namespace is one of
// unshare's alone: in clone the bit is part of a signal's number.
const (
	namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	timeSpaces = namespaces | unix.CLONE_NEWTIME
)

// personalities are what a program may make itself (personality(2)): Linux, with 32-bit names of the machine
// (UNAME26, PER_LINUX32), without random addresses, as debuggers have it; or it may ask.
var personalities = []uint32{0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff}
