package egress

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pidfdGetNetNamespace is PIDFD_GET_NET_NAMESPACE of linux/pidfd.h, since Linux 6.11.
const pidfdGetNetNamespace = 0xff04

// newKernel reads the peer of a socket of this process, to learn whether the kernel can report
// peers.
func newKernel() kernel {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return kernel{err: err}
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
	p, err := peerAt(fds[0])
	defer p.release()
	return kernel{own: p.namespace, err: err}
}

// peerOf returns the network namespace of the process that called connect. The kernel identifies
// the process by a pidfd, which no other process can take over. The process must still be alive.
func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{fd: -1}, err
	}
	p := peer{fd: -1}
	if cerr := raw.Control(func(fd uintptr) { p, err = peerAt(int(fd)) }); cerr != nil {
		return p, errors.Join(cerr, err)
	}
	return p, err
}

func peerAt(socket int) (peer, error) {
	none := peer{fd: -1}
	pidfd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil {
		return none, fmt.Errorf("cannot read the process of the peer (SO_PEERPIDFD): %w", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	unix.CloseOnExec(pidfd)
	ns, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), pidfdGetNetNamespace, 0)
	if errno != 0 {
		return none, fmt.Errorf("cannot read the network namespace of the peer (PIDFD_GET_NET_NAMESPACE): %w", errno)
	}
	fd := int(ns)
	unix.CloseOnExec(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return none, err
	}
	return peer{namespace: st.Ino, fd: fd}, nil
}

func (p peer) release() {
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
	}
}

// OpenNamespace opens a network namespace other than this process's, and returns its inode for
// Register. While the file is open the kernel does not reuse the inode. Any other file is refused:
// it has an inode too, but no peer would ever match it.
func OpenNamespace(path string) (ns *os.File, inode uint64, err error) {
	ns, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // without O_NONBLOCK a pipe would wait for a writer
	if err != nil {
		return nil, 0, err
	}
	if inode, err = namespaceOf(ns); err != nil {
		return nil, 0, errors.Join(err, ns.Close())
	}
	return ns, inode, nil
}

func namespaceOf(ns *os.File) (uint64, error) {
	if kind, err := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return 0, errors.New(ns.Name() + " is not a network namespace")
	}
	info, err := ns.Stat()
	if err != nil {
		return 0, err
	}
	own, err := os.Stat("/proc/self/ns/net")
	if err != nil {
		return 0, fmt.Errorf("cannot read this process's own network namespace: %w", err)
	}
	if os.SameFile(info, own) {
		return 0, errors.New(ns.Name() + " is the network namespace of this process itself, so it is not a sandbox")
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}
