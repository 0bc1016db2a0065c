package egress

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forwardedListener accepts the connections of a sandbox that connects to a socket of its runner,
// on this machine (broker.EgressEndpointSpec.Forward). That socket outlives a restart of ebb. The runner
// passes the descriptor of each connection over the socket of the endpoint (unix(7), SCM_RIGHTS).
// The kernel still reports the process that connected as the peer, so that ebb need not trust the
// runner.
type forwardedListener struct {
	*socketListener
	conns chan *net.UnixConn
	gone  chan struct{} // closed by Close

	mu     sync.Mutex
	runner *net.UnixConn // sends the descriptors; nil = no runner is connected
	closed bool
}

func newForwardedListener(d *socketListener) *forwardedListener {
	f := &forwardedListener{socketListener: d, conns: make(chan *net.UnixConn), gone: make(chan struct{})}
	go f.run()
	return f
}

// run serves the connections of the runner, one at a time.
func (f *forwardedListener) run() {
	<-f.decided
	for {
		runner, err := f.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptor is free: wait for one
			time.Sleep(acceptPause)
		case f.connected(runner):
			f.take(runner)
			_ = runner.Close()
		}
	}
}

// connected registers the connection of the runner so that Close closes it. It returns false if
// Close has already run.
func (f *forwardedListener) connected(runner *net.UnixConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = runner.Close()
		return false
	}
	f.runner = runner
	return true
}

// take accepts the connections that the runner passes, until the runner's connection ends. At most
// one accepted connection waits here; further ones wait in the runner.
func (f *forwardedListener) take(runner *net.UnixConn) {
	for {
		c, err := received(runner)
		if err != nil {
			return
		}
		// Nothing has been read from c yet. After this byte the runner does not pass c again.
		if _, err := runner.Write([]byte{taken}); err != nil {
			_ = c.Close()
			return
		}
		if !f.admits(c) {
			continue
		}
		select {
		case f.conns <- c:
		case <-f.gone:
			_ = c.Close()
			return
		}
	}
}

// Accept implements net.Listener.
func (f *forwardedListener) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.gone:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *forwardedListener) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	close(f.gone)
	if f.runner != nil {
		_ = f.runner.Close()
	}
	return f.socketListener.Close()
}

// taken is the byte with which ebb acknowledges a passed connection.
const taken = 1

// Pass passes a connection of a sandbox to ebb over to, a connection to broker.EgressEndpoint.Socket. When
// Pass returns nil, ebb serves the connection and the caller closes c. After an error, ebb has read
// nothing from c, and to must not be used again.
func Pass(to, c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := raw.Control(func(fd uintptr) {
		_, _, err = to.WriteMsgUnix([]byte{taken}, unix.UnixRights(int(fd)), nil)
	}); cerr != nil {
		return cerr
	}
	if err != nil {
		return err
	}
	if n, err := to.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("ebb did not acknowledge the connection: %w", err)
	}
	return nil
}

// received receives one connection that Pass has sent.
func received(from *net.UnixConn) (*net.UnixConn, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, got, flags, _, err := from.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:got])
	if n != 1 || err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("the runner passed no file descriptor"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	var c net.Conn
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "passed")
		if c == nil {
			c, err = net.FileConn(file)
		}
		_ = file.Close()
	}
	u, is := c.(*net.UnixConn)
	if is && flags&syscall.MSG_CTRUNC == 0 {
		return u, nil
	}
	if c != nil {
		_ = c.Close()
	}
	return nil, errors.Join(errors.New("the file descriptor passed by the runner is not a Unix socket"), err)
}
