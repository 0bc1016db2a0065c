package web

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/attest"
)

// peerOf returns the credentials that the kernel recorded when the peer connected.
func peerOf(c *net.UnixConn) (*attest.Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	pidfd, pidfdErr := -1, error(nil)
	if ctlErr := raw.Control(func(fd uintptr) {
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pidfd, pidfdErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		}
	}); ctlErr != nil {
		return nil, ctlErr
	}
	switch {
	case err != nil:
		return nil, err
	case errors.Is(pidfdErr, unix.ENOPROTOOPT): // before Linux 6.5
		pidfd = -1
	case pidfdErr != nil: // no descriptor left, or the process has exited
		return nil, pidfdErr
	}
	return &attest.Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid, PIDFD: pidfd}, nil
}
