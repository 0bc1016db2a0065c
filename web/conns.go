package web

import (
	"net"
	"sync"
	"syscall"
)

// maxConns is the upper limit of connections of one listener, also if the file
// descriptor limit allows more.
const maxConns = 1 << 16

// Conns returns the number of connections that a listener may accept: share of the file descriptor
// limit of this process. The rest is for ebb's own connections and files, so that clients cannot
// exhaust the descriptors that the stores need.
func Conns(share float64) int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		r.Cur = 1024
	}
	return int(max(16, min(maxConns, share*float64(r.Cur))))
}

// Capped returns a listener with at most n open connections. Further
// connections wait in the system's queue until one is closed.
func Capped(l net.Listener, n int) net.Listener { return &capped{l, newSlots(n)} }

type capped struct {
	net.Listener
	slots *slots
}

// Accept implements net.Listener.
func (l *capped) Accept() (net.Conn, error) {
	if !l.slots.take() {
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		l.slots.give()
		return nil, err
	}
	return &cappedConn{Conn: c, give: sync.OnceFunc(l.slots.give)}, nil
}

// Close implements net.Listener.
func (l *capped) Close() error {
	l.slots.shut()
	return l.Listener.Close()
}

type cappedConn struct {
	net.Conn
	give func()
}

// Close implements net.Conn.
func (c *cappedConn) Close() error {
	defer c.give()
	return c.Conn.Close()
}

// CloseWrite lets net/http end a connection so that its last response arrives.
func (c *cappedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// slots limits the number of open connections.
type slots struct {
	taken, closed chan struct{}
	shut          func()
}

func newSlots(n int) *slots {
	s := &slots{taken: make(chan struct{}, n), closed: make(chan struct{})}
	s.shut = sync.OnceFunc(func() { close(s.closed) })
	return s
}

// take waits for a slot. It returns false after shut.
func (s *slots) take() bool {
	select {
	case s.taken <- struct{}{}:
		return true
	case <-s.closed:
		return false
	}
}

func (s *slots) give() { <-s.taken }
