package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"

	"ebb/attest"
)

// Peer is who connected to the unix socket that the request of ctx came in by; nil
// for every other connection. Its PIDFD is open until the handler returns.
func Peer(ctx context.Context) *attest.Peer {
	p, _ := ctx.Value(peerKey{}).(*attest.Peer)
	return p
}

type peerKey struct{}

// peerListener asks the kernel about each process that connects.
type peerListener struct {
	*net.UnixListener
	slots *slots
}

// Close implements net.Listener.
func (l *peerListener) Close() error {
	l.slots.shut()
	return l.UnixListener.Close()
}

// Accept implements net.Listener. A connection of which the kernel does not say
// whose it is, is not taken: a process that makes ebb run out of descriptors must
// not be judged by less than others.
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
	peer *attest.Peer // nil: this system does not say
	give func()
	once sync.Once
}

// RemoteAddr is the path of the socket. The other end's own name is what its
// process chose, which may look like an address of a trusted proxy.
func (c *peerConn) RemoteAddr() net.Addr { return c.LocalAddr() }

// release closes the descriptor of the process and makes room for another
// connection, once. Not Close does it but the
// server when it is done with the connection: a handler that still looks at the
// number must not find another file there.
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

// releaseConn is the ConnState of a server: a closed connection has no handler any more, and one that
// a handler has taken over is counted where it has gone. Who takes one over looks at its peer before.
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
