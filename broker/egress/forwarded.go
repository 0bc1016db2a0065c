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

// forwarded is the entrance of a sandbox whose runner, on this machine, has the socket that the sandbox
// connects to (broker.BoxSpec.Forward). That socket outlives a restart of ebb. The runner passes the
// descriptor of each connection through the door (unix(7), SCM_RIGHTS). Its peer is still the process that
// connected, so the kernel is asked here who that is, and the runner is believed nothing.
type forwarded struct {
	*door
	conns chan *net.UnixConn
	gone  chan struct{} // closed by Close

	mu     sync.Mutex
	runner *net.UnixConn // whence descriptors come; nil = no runner is connected
	closed bool
}

func newForwarded(d *door) *forwarded {
	f := &forwarded{door: d, conns: make(chan *net.UnixConn), gone: make(chan struct{})}
	go f.run()
	return f
}

// run takes the connections of the runner, one after another: it has one at a time.
func (f *forwarded) run() {
	<-f.said
	for {
		runner, err := f.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptor is free: one will be
			time.Sleep(acceptPause)
		case f.connected(runner):
			f.take(runner)
			_ = runner.Close()
		}
	}
}

// connected has Close close the connection of the runner; false: it has been closed already.
func (f *forwarded) connected(runner *net.UnixConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = runner.Close()
		return false
	}
	f.runner = runner
	return true
}

// take takes what the runner passes, until it passes no more. One connection waits at a time: those beyond
// wait in the runner.
func (f *forwarded) take(runner *net.UnixConn) {
	for {
		c, err := received(runner)
		if err != nil {
			return
		}
		// Nothing of it has been read. From here on the runner does not pass it again.
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
func (f *forwarded) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.gone:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *forwarded) Close() error {
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
	return f.door.Close()
}

// doorOf is the door of a box on this machine; nil = the box is on another.
func doorOf(e entrance) *door {
	switch e := e.(type) {
	case *door:
		return e
	case *forwarded:
		return e.door
	}
	return nil
}

// taken is the byte by which ebb says that a connection is its own now.
const taken = 1

// Pass passes a connection of a sandbox to its ebb, through to, a connection to broker.Box.Socket. When Pass
// returns nil the connection is ebb's, and the caller closes c. After an error ebb has read nothing of c,
// and to is of no use any more.
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
		return fmt.Errorf("ebb has not taken the connection: %w", err)
	}
	return nil
}

// received is one connection that Pass has passed.
func received(from *net.UnixConn) (*net.UnixConn, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, got, flags, _, err := from.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:got])
	if n != 1 || err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("no connection was passed"), err)
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
	return nil, errors.Join(errors.New("what was passed is no connection of a unix socket"), err)
}
