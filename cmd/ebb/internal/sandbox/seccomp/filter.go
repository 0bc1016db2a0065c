//go:build linux

package seccomp

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets of the fields of struct seccomp_data. Only the lower half of an
// argument is read, because the kernel ignores the upper half of the arguments
// checked here.
const (
	offCall = 0
	offArch = 4
	offArgs = 16
)

// machines are the architectures with a filter, and their numbers in seccomp.
var machines = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// x32 marks calls of the x32 ABI on amd64.
const x32 = 0x40000000

// Filter returns the program in the format that bubblewrap reads: an array of
// struct sock_filter in native byte order. A call of another architecture kills
// the process.
func Filter() ([]byte, error) {
	arch, known := machines[runtime.GOARCH]
	if !known {
		return nil, fmt.Errorf("there is no system call filter for the architecture %s", runtime.GOARCH)
	}
	raw, err := bpf.Assemble(program(arch))
	if err != nil {
		return nil, fmt.Errorf("assemble the system call filter: %w", err)
	}
	var out []byte
	for _, i := range raw {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out, nil
}

// Install applies the filter to all threads of this process and to its future
// child processes (seccomp(2)), in addition to filters that are already
// installed.
func Install() error {
	text, err := Filter()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(text) / unix.SizeofSockFilter), Filter: (*unix.SockFilter)(unsafe.Pointer(&text[0]))}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(text)
	if errno != 0 || thread != 0 { // thread is one to which the filter could not be applied
		return fmt.Errorf("seccomp: thread %d: %w", thread, errno)
	}
	return nil
}

func program(arch uint32) []bpf.Instruction {
	p := []bpf.Instruction{
		load(offArch),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		load(offCall),
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
	}
	for _, nr := range refused {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: 1}, fails(unix.EPERM))
	}
	p = append(p, only(unix.SYS_SOCKET, sockets())...)
	p = append(p, only(unix.SYS_SOCKETPAIR, sockets())...)
	p = append(p, only(unix.SYS_IOCTL, requests())...)
	p = append(p, only(unix.SYS_CLONE, without(namespaces))...)
	p = append(p, only(unix.SYS_UNSHARE, without(timeSpaces))...)
	p = append(p, only(unix.SYS_PERSONALITY, one(personalities))...)
	for _, r := range ranges(slices.Concat(common, legacy)) {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: r[0], SkipTrue: 2}, bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: r[1], SkipTrue: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	}
	return append(p, fails(unix.ENOSYS)) // including clone3(2), whose flags a filter cannot read
}

// ranges returns the ranges of consecutive numbers in nrs, first and last of
// each.
func ranges(nrs []uint32) (all [][2]uint32) {
	for _, nr := range slices.Compact(slices.Sorted(slices.Values(nrs))) {
		if n := len(all); n > 0 && all[n-1][1]+1 == nr {
			all[n-1][1] = nr
			continue
		}
		all = append(all, [2]uint32{nr, nr})
	}
	return all
}

// without allows a call whose first argument has none of these bits.
func without(bits uint32) []bpf.Instruction {
	return []bpf.Instruction{load(offArgs), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: bits, SkipTrue: 1}, fails(unix.EPERM), bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}}
}

// one allows a call whose first argument is one of values.
func one(values []uint32) []bpf.Instruction {
	p := []bpf.Instruction{load(offArgs)}
	for _, v := range values {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	}
	return append(p, fails(unix.EPERM))
}

// only applies checks to one call. The checks end the program.
func only(nr uint32, checks []bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(checks))}}, checks...)
}

// sockets allows the families of a network namespace, and netlink for routes,
// which programs use to list addresses.
func sockets() []bpf.Instruction {
	var p []bpf.Instruction
	p = append(p, load(offArgs))
	for _, f := range families {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: f, SkipTrue: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	}
	return append(p,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_NETLINK, SkipTrue: 3},
		load(offArgs+2*8),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
		fails(unix.EAFNOSUPPORT))
}

func requests() []bpf.Instruction {
	p := []bpf.Instruction{load(offArgs + 8)}
	for _, r := range typing {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: r, SkipTrue: 1}, fails(unix.EPERM))
	}
	return append(p, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

func load(off uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: off, Size: 4} }

func fails(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
}

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
