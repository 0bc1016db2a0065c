//go:build linux

package docker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ebb/cmd/ebb/internal/box"
)

// upPatience is how long a container may take to come up.
const upPatience = 2 * time.Minute

// called waits for the shim, and takes no second call.
func (r *running) called(l *net.UnixListener) (*net.UnixConn, error) {
	type call struct {
		conn *net.UnixConn
		err  error
	}
	calls := make(chan call, 1)
	go func() {
		_ = l.SetDeadline(time.Now().Add(upPatience))
		conn, err := l.AcceptUnix()
		_ = l.Close() // and nobody finds it any more
		calls <- call{conn, err}
	}()
	select {
	case c := <-calls:
		if c.err != nil {
			return nil, fmt.Errorf("%w: nothing in the container called: is the daemon of Docker on this machine? %s", box.ErrNone, r.said.text())
		}
		return c.conn, nil
	case err := <-r.ended:
		r.ended <- err
		_ = l.Close()
		if c := <-calls; c.conn != nil {
			_ = c.conn.Close()
		}
		return nil, fmt.Errorf("%w: docker made no container: %s", box.ErrNone, r.said.text())
	}
}

// callerOf is the process that called, held by a pidfd.
func callerOf(c *net.UnixConn) (*os.Process, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var process *os.Process
	if cerr := raw.Control(func(fd uintptr) { process, err = peerOf(int(fd)) }); cerr != nil {
		return nil, cerr
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the box's first process cannot be seen from here: %w", box.ErrNone, err)
	}
	return process, nil
}

// peerOf is the process at the other end of a socket. The kernel says its number, which may be
// another process's by the time that it is looked up, and since Linux 6.5 also who it is for good:
// while that one is there, nobody else has had its number.
func peerOf(socket int) (*os.Process, error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, err
	}
	if cred.Pid <= 1 {
		return nil, fmt.Errorf("its process is %d", cred.Pid)
	}
	pidfd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return os.FindProcess(int(cred.Pid))
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(pidfd)
	unix.CloseOnExec(pidfd)
	process, err := os.FindProcess(int(cred.Pid))
	if err != nil {
		return nil, err
	}
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) { // of another user, it is there
		return nil, errors.Join(err, process.Release())
	}
	return process, nil
}
