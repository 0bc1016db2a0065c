package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/ebb-broker/ebb/attest"
)

// Peer returns the process that connected to the Unix socket of the request;
// nil for other connections. Its PIDFD is open until the handler returns.
func Peer(ctx context.Context) *attest.Peer {
	p, _ := ctx.Value(peerKey{}).(*attest.Peer)
	return p
}

type peerKey struct{}

// peerListener asks the kernel for the process of each connection.
type peerListener struct {
	*net.UnixListener
	slots *slots
}

// Close implements net.Listener.
func (l *peerListener) Close() error {
	l.slots.shut()
	return l.UnixListener.Close()
}

// Accept implements net.Listener. It closes a connection whose process the kernel does not report.
// Otherwise a process could avoid identification by making ebb run out of file descriptors.
func (l *peerListener) Accept() (net.Conn, error) {
	if !l.slots.take() {
		return nil, net.ErrClosed
	}
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			l.slots.give()
			return nil, err
		}
		p, err := peerOf(c)
		if err != nil {
			_ = c.Close()
			continue
		}
		return &peerConn{UnixConn: c, peer: p, give: l.slots.give}, nil
	}
}

// peerConn is a connection and the process that made it.
type peerConn struct {
	*net.UnixConn
	peer *attest.Peer // nil: the system does not report it
	give func()
	once sync.Once
}

// RemoteAddr returns the path of the socket. The peer chooses its own address,
// which may look like that of a trusted proxy.
func (c *peerConn) RemoteAddr() net.Addr { return c.LocalAddr() }

// release closes the PIDFD and frees the slot, once. The server calls it when
// it is done with the connection, and not Close: a handler that still uses the
// descriptor number must not find another file there.
func (c *peerConn) release() {
	c.once.Do(func() {
		if c.peer != nil && c.peer.PIDFD >= 0 {
			_ = syscall.Close(c.peer.PIDFD)
		}
		c.give()
	})
}

// withPeer is the ConnContext of a server.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if pc, ok := c.(*peerConn); ok && pc.peer != nil {
		return context.WithValue(ctx, peerKey{}, pc.peer)
	}
	return ctx
}

// releaseConn is the ConnState of a server. A closed connection has no handler any more. The code that
// hijacks a connection must read its peer before that, and counts the connection from then on.
func releaseConn(c net.Conn, s http.ConnState) {
	if s != http.StateClosed && s != http.StateHijacked {
		return
	}
	if t, is := c.(*tls.Conn); is {
		c = t.NetConn()
	}
	switch c := c.(type) {
	case *peerConn:
		c.release()
	case *cappedConn:
		c.give()
	}
}
