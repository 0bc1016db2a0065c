//go:build linux

package docker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
)

// upPatience is how long a container may take to start.
const upPatience = 2 * time.Minute

// called waits for the shim's connection, and accepts only one.
func (r *running) called(l *net.UnixListener) (*net.UnixConn, error) {
	type call struct {
		conn *net.UnixConn
		err  error
	}
	calls := make(chan call, 1)
	go func() {
		_ = l.SetDeadline(time.Now().Add(upPatience))
		conn, err := l.AcceptUnix()
		_ = l.Close() // removes the socket
		calls <- call{conn, err}
	}()
	select {
	case c := <-calls:
		if c.err != nil {
			return nil, fmt.Errorf("%w: the container did not connect within 2m0s; check that the Docker daemon runs on this machine: %s", box.ErrNone, r.said.text())
		}
		return c.conn, nil
	case err := <-r.ended:
		r.ended <- err
		_ = l.Close()
		if c := <-calls; c.conn != nil {
			_ = c.conn.Close()
		}
		return nil, fmt.Errorf("%w: docker created no container: %s", box.ErrNone, r.said.text())
	}
}

// callerOf returns the process that connected, held by a pidfd.
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
		return nil, fmt.Errorf("%w: get the first process of the sandbox: %w", box.ErrNone, err)
	}
	return process, nil
}

// peerOf returns the process at the other end of a socket. The kernel reports
// its PID, which may be reused before it is looked up. Since Linux 6.5 the
// kernel also returns a pidfd: if that process still lives after the lookup,
// its PID was not reused.
func peerOf(socket int) (*os.Process, error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, err
	}
	if cred.Pid <= 1 {
		return nil, fmt.Errorf("the peer's PID is %d, which is not a process of another PID namespace", cred.Pid)
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
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) { // EPERM: the process lives and belongs to another user
		return nil, errors.Join(err, process.Release())
	}
	return process, nil
}
