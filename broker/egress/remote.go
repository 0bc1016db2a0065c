package egress

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ebb-broker/ebb/broker"
)

// remoteListener accepts the connections of a sandbox on another machine. The runner there checks
// the peers and relays each connection.
type remoteListener struct {
	conns chan net.Conn
	room  chan struct{} // connections that wait for Accept
	pace  *rate.Limiter // limits the rate of arriving connections
	gone  chan struct{} // closed by Close
	once  sync.Once
}

// maxWaiting is how many connections of all sandboxes may wait. One task may take a part of the
// free places (share).
const maxWaiting = 512

// remoteRate is how many connections of one sandbox may arrive per second: twice the rate of a
// Forwarder.
const remoteRate = 2 * openRate

func newRemoteListener() *remoteListener {
	return &remoteListener{conns: make(chan net.Conn), room: make(chan struct{}, maxRemoteWaiting), pace: rate.NewLimiter(remoteRate, 2*maxForwarded), gone: make(chan struct{})}
}

// Accept implements net.Listener.
func (h *remoteListener) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.gone:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *remoteListener) Close() error {
	h.once.Do(func() { close(h.gone) })
	return nil
}

// Addr implements net.Listener.
func (h *remoteListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "handed"} }

func (h *remoteListener) open() bool {
	select {
	case <-h.gone:
		return false
	default:
		return true
	}
}

var (
	errNotRemote      = broker.E(broker.Conflict, "The sandbox has a socket on the machine of this ebb. Connect to that socket.", nil)
	errCrowded        = &broker.Error{Kind: broker.TooMany, Public: "Too many connections of the sandbox wait, or they arrive too often. Wait, then try again.", RetryAfter: time.Second}
	errRemoteDisabled = broker.E(broker.Conflict, "This ebb serves no sandboxes on other machines. The operator can allow them with egress.remote.", nil)
	errIdentity       = broker.E(broker.Invalid, "identity must be runner for a sandbox on another machine, and absent for one on the machine of ebb.", nil)
)

// Enter reserves a place for one more connection of a sandbox on another machine
// (broker.EndpointByRunner). The caller then passes the connection to enter, which does not block, or
// nil to give the place back.
func (b *Endpoints) Enter(ctx context.Context, who broker.Principal, taskID, id string) (enter func(net.Conn), err error) {
	o, err := b.find(ctx, who, taskID, id)
	if err != nil {
		return nil, err
	}
	h, is := o.l.(*remoteListener)
	if !is {
		return nil, errNotRemote
	}
	if !h.pace.Allow() {
		return nil, errCrowded
	}
	give := b.waiting.take(o.endpoint.Caller().Root())
	if give == nil {
		return nil, errCrowded
	}
	select {
	case h.room <- struct{}{}:
	default:
		give()
		return nil, errCrowded
	}
	leave := func() { <-h.room; give() }
	return func(c net.Conn) {
		if c == nil {
			leave()
			return
		}
		if t, is := c.(*tls.Conn); is {
			c = &remoteConn{t, h.gone}
		}
		go func() {
			defer leave()
			select {
			case h.conns <- c:
			case <-h.gone:
				_ = c.Close()
			}
		}()
	}, nil
}

// remoteConn is a TLS connection from a runner. After the end of the endpoint, Close closes the
// connection below TLS. tls.Conn.Close takes up to 5 s for its close_notify, and blocks for as long
// as the peer does not read the response to a KeyUpdate.
type remoteConn struct {
	*tls.Conn
	gone <-chan struct{} // closed when the endpoint ends
}

// Close implements net.Conn.
func (a *remoteConn) Close() error {
	select {
	case <-a.gone:
		return a.NetConn().Close()
	default:
	}
	late := time.AfterFunc(closeGrace, func() { _ = a.NetConn().Close() })
	defer late.Stop()
	return a.Conn.Close()
}

// endpointListener makes the listener of an endpoint. strange is called for each rejected peer.
func (b *Endpoints) endpointListener(x *broker.EgressEndpoint, forward bool, strange func(namespace uint64, err error)) (endpointListener, error) {
	if x.Identity == broker.EndpointByRunner {
		return newRemoteListener(), nil
	}
	l, err := listenSocket(b.cfg.Dir, x.ID)
	if err != nil {
		return nil, broker.E(broker.Unavailable, "The egress endpoint could not be opened: its socket cannot be made. The log of ebb says why.", err)
	}
	x.Socket, l.strange = l.path(), strange
	if x.Identity == broker.EndpointBySocket {
		l.admit(func(peer) error { return nil })
	}
	if forward {
		return newForwardedListener(l), nil
	}
	return l, nil
}

// identity returns how an endpoint will identify its peers.
func (b *Endpoints) identity(asked broker.EndpointIdentity) (broker.EndpointIdentity, error) {
	switch {
	case asked == broker.EndpointByRunner && !b.cfg.Remote:
		return "", errRemoteDisabled
	case asked == broker.EndpointByRunner:
		return asked, nil
	case asked != "":
		return "", errIdentity
	case b.kernel.err != nil:
		return "", broker.E(broker.Conflict, "The kernel of this machine cannot report the network namespace of a connecting process, so that sandboxes cannot be told apart. Use Linux 6.11 or later, or set egress.identity to socket and keep the socket of each sandbox to that sandbox.", b.kernel.err)
	}
	return b.cfg.Identity, nil
}
