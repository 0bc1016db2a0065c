package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ebb/broker"
)

// handed is the entrance of a box that is not on this machine: its runner asks there who connects,
// and hands each connection on.
type handed struct {
	conns chan net.Conn
	room  chan struct{} // of connections that wait to be taken
	pace  *rate.Limiter // of those that come
	gone  chan struct{} // closed by Close
	once  sync.Once
}

// maxHanded is how many connections of one box wait to be taken, beside those that it has. At a socket
// they would wait in the kernel; here each has a descriptor.
const maxHanded = 8

// maxWaiting is how many of all boxes wait; one task's are a part of those that are left.
const maxWaiting = 512

// handedRate is how many connections of one box come in a second, twice what a Carrier lets through.
const handedRate = 2 * openRate

func newHanded() *handed {
	return &handed{conns: make(chan net.Conn), room: make(chan struct{}, maxHanded), pace: rate.NewLimiter(handedRate, 2*maxCarried), gone: make(chan struct{})}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.gone:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.gone) })
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "handed"} }

func (h *handed) open() bool {
	select {
	case <-h.gone:
		return false
	default:
		return true
	}
}

var (
	errNotHanded = broker.E(broker.Conflict, "The box has a socket of its own, on the machine of this ebb: connect there.", nil)
	errCrowded   = &broker.Error{Kind: broker.TooMany, Public: "As many connections of the box wait as may wait, or they come too often. Wait, then try again.", RetryAfter: time.Second}
	errNoAway    = broker.E(broker.Conflict, "This ebb carries no boxes of other machines. Its operator sets egress.remote.", nil)
	errIdentity  = broker.E(broker.Invalid, "identity is runner for a box on another machine, and is left out for one on ebb's.", nil)
)

// Enter takes a place for one more connection of a box of another machine (broker.BoxByRunner). The
// caller hands the connection over by enter, which does not wait, or nil when there is none after all.
func (b *Boxes) Enter(ctx context.Context, who broker.Principal, taskID, id string) (enter func(net.Conn), err error) {
	o, err := b.find(ctx, who, taskID, id)
	if err != nil {
		return nil, err
	}
	h, is := o.l.(*handed)
	if !is {
		return nil, errNotHanded
	}
	if !h.pace.Allow() {
		return nil, errCrowded
	}
	give := b.waiting.take(o.box.Caller().Root())
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
			c = &apart{t, h.gone}
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

// apart is a connection of TLS from a runner. Who closes it when the box is over waits for nobody:
// tls.Conn.Close says farewell, for 5 s, and waits without end behind an answer to a KeyUpdate that the
// peer does not read.
type apart struct {
	*tls.Conn
	gone <-chan struct{} // the box is over
}

// Close implements net.Conn.
func (a *apart) Close() error {
	select {
	case <-a.gone:
		return a.NetConn().Close()
	default:
	}
	late := time.AfterFunc(farewell, func() { _ = a.NetConn().Close() })
	defer late.Stop()
	return a.Conn.Close()
}

// entrance makes what the connections of a box come by. strange is told of those who are not let in.
func (b *Boxes) entrance(x *broker.Box, forward bool, strange func(namespace uint64, err error)) (entrance, error) {
	if x.Identity == broker.BoxByRunner {
		return newHanded(), nil
	}
	l, err := listen(b.cfg.Dir, x.ID)
	if err != nil {
		return nil, broker.E(broker.Unavailable, "The box could not be made: its socket cannot be opened here. The operator's log says why.", err)
	}
	x.Socket, l.strange = l.path(), strange
	if x.Identity == broker.BoxBySocket {
		l.admit(func(peer) error { return nil })
	}
	if forward {
		return newForwarded(l), nil
	}
	return l, nil
}

// identity is how a box will be known that is asked for so.
func (b *Boxes) identity(asked broker.BoxIdentity) (broker.BoxIdentity, error) {
	switch {
	case asked == broker.BoxByRunner && !b.cfg.Remote:
		return "", errNoAway
	case asked == broker.BoxByRunner:
		return asked, nil
	case asked != "":
		return "", errIdentity
	case b.kernel.err != nil:
		return "", broker.E(broker.Conflict, "This machine does not say in which network namespace a process is that connects, so that boxes cannot be told apart. It takes Linux 6.11; or set egress.identity to socket, and keep each box's socket to that box.", b.kernel.err)
	}
	return b.cfg.Identity, nil
}

// entrance is what the connections of a box come by.
type entrance interface {
	net.Listener
	open() bool
}

var errBoxWho = errors.New("egress: how boxes are known is kernel or socket")
