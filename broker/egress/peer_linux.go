package egress

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// pidfdGetNetNamespace is PIDFD_GET_NET_NAMESPACE of linux/pidfd.h, since Linux 6.11.
const pidfdGetNetNamespace = 0xff04

// newKernel tries out on this process what is asked of every peer.
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

// peerOf asks who has connected. The process is the one that called connect, by a
// descriptor that no other process takes over; it must be alive still.
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
		return none, fmt.Errorf("its process is not known (SO_PEERPIDFD): %w", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	unix.CloseOnExec(pidfd)
	ns, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), pidfdGetNetNamespace, 0)
	if errno != 0 {
		return none, fmt.Errorf("its network namespace is not known (PIDFD_GET_NET_NAMESPACE): %w", errno)
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
