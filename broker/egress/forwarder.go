package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/ebb-broker/ebb/broker"
)

// Listener is the socket of an endpoint on the machine of the runner, when ebb runs on another
// machine (broker.EndpointByRunner). The kernel of that machine reports each peer.
type Listener struct {
	*socketListener
	kernel kernel
}

// ErrKernel is wrapped where the kernel cannot identify the peers of a socket.
var ErrKernel = errors.New("the kernel cannot report the network namespace of a connecting process, which requires Linux 6.11")

// ErrEndpointID is returned by NewListener for an endpoint id that does not end in 16 lower-case
// hex digits. That part of the id becomes a directory name.
var ErrEndpointID = errors.New("the endpoint id does not end in 16 hex digits")

// CheckKernel returns an error that wraps ErrKernel when NewListener would refuse EndpointByKernel on
// this machine, and nil otherwise.
func CheckKernel() error { return newKernel().refusal() }

func (k kernel) refusal() error {
	if k.err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrKernel, k.err)
}

// NewListener makes the socket of an endpoint below dir, a directory of this user alone. by is
// EndpointByKernel or EndpointBySocket. With EndpointByKernel no peer is admitted before Register. strange is
// called for each rejected peer.
func NewListener(dir string, x broker.EgressEndpoint, by broker.EndpointIdentity, strange func(namespace uint64, err error)) (*Listener, error) {
	d := &Listener{}
	switch by {
	case broker.EndpointByKernel:
		if d.kernel = newKernel(); d.kernel.err != nil {
			return nil, d.kernel.refusal()
		}
	case broker.EndpointBySocket:
	default:
		return nil, errIdentityKind
	}
	if n := len(x.ID); n < 16 || !socketDirs.MatchString(x.ID[n-16:]) { // the end of the id becomes the name of a directory
		return nil, ErrEndpointID
	}
	l, err := listenSocket(dir, x.ID)
	if err != nil {
		return nil, err
	}
	l.strange = strange
	if by == broker.EndpointBySocket {
		l.admit(func(peer) error { return nil })
	}
	d.socketListener = l
	return d, nil
}

// Socket returns the path of the socket.
func (d *Listener) Socket() string { return d.path() }

// Register sets the network namespace, by its inode, whose processes are admitted. Only the first
// call counts.
func (d *Listener) Register(namespace uint64) error {
	if namespace == 0 || namespace == d.kernel.own {
		return errors.New("the sandbox must have its own network namespace, other than the one of this process")
	}
	d.register(namespace)
	return nil
}

// Forwarder relays the connections of one sandbox from the runner to ebb.
type Forwarder struct {
	// Dial is required unless Pass is set; client.EndpointsService.Connect implements it. Its context
	// ends the call, not the connection that the call returns. After ErrBusy it is called again.
	Dial func(context.Context) (io.ReadWriteCloser, error)
	// Pass replaces Dial when ebb runs on this machine: it passes the connection itself to ebb, and
	// the Forwarder then closes its own descriptor. Its context ends with Serve. After ErrBusy it
	// is called again.
	Pass func(context.Context, *net.UnixConn) error
	// Failed is called with the reason when a connection could not be accepted or forwarded, at
	// most once a second and by one goroutine at a time; nil = the reasons are dropped.
	Failed func(error)
}

// maxForwarded is how many connections are forwarded at one time: the default of
// Config.Connections. Further connections wait in the kernel.
const maxForwarded = 64

// A call of Dial costs ebb a handshake, an authentication and a log line. For one sandbox at most
// maxOpening calls run at one time, fewer than may wait at ebb, and openRate calls start per
// second.
const (
	maxOpening = maxRemoteWaiting / 2
	openRate   = 50
)

// Serve forwards the connections of l until ctx is done or l is closed. It closes l and ends all of
// them.
func (c Forwarder) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer func() { _ = l.Close() }() // l is closed when Serve returns, also when AfterFunc has begun to close it
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	room, opening := make(chan struct{}, maxForwarded), make(chan struct{}, maxOpening)
	pace, complaints := rate.NewLimiter(openRate, maxForwarded), rate.Sometimes{Interval: time.Second}
	failed := func(err error) {
		if c.Failed != nil {
			complaints.Do(func() { c.Failed(err) })
		}
	}
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		conn, err := l.Accept()
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			<-room
			failed(err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		all.Go(func() {
			defer func() { <-room }()
			if err := c.forward(ctx, conn, opening, pace); err != nil {
				told := ctx.Err() == nil // after the end of ctx there is no response
				if told {
					writeUnavailable(conn, Doubt)
				}
				_ = conn.Close()
				if told { // after the sandbox has its response, because Failed may be slow
					failed(err)
				}
			}
		})
	}
}

// forward forwards one connection. It closes conn unless it returns an error.
func (c Forwarder) forward(ctx context.Context, conn net.Conn, opening chan struct{}, pace *rate.Limiter) error {
	if u, is := conn.(*net.UnixConn); is && c.Pass != nil {
		err := again(ctx, func() error { return c.Pass(ctx, u) })
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	out, err := c.dial(ctx, opening, pace)
	if err == nil {
		relay(ctx, conn, out)
	}
	return err
}

// dial calls Dial for one connection, for at most forwardTimeout.
func (c Forwarder) dial(ctx context.Context, opening chan struct{}, pace *rate.Limiter) (out io.ReadWriteCloser, err error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	err = again(ctx, func() (err error) {
		if err = turn(ctx, opening, pace); err == nil {
			out, err = c.Dial(ctx)
			<-opening // a pause between calls must not block the turns of others
		}
		return err
	})
	return out, err
}

// again calls try until it returns anything but ErrBusy, with pauses, for at most forwardTimeout
// after the first ErrBusy.
func again(ctx context.Context, try func() error) error {
	var busy error // more useful to the caller than a timeout
	var late <-chan time.Time
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrBusy):
			return cmp.Or(busy, err)
		case busy == nil:
			late = time.After(forwardTimeout)
		}
		busy = err
		select {
		case <-time.After(pause):
		case <-late:
			return busy
		case <-ctx.Done():
			return busy
		}
	}
}

// turn waits until Dial may be called again, and takes a slot in opening for the call.
func turn(ctx context.Context, opening chan<- struct{}, pace *rate.Limiter) error {
	if err := pace.Wait(ctx); err != nil {
		return err
	}
	select {
	case opening <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrBusy is wrapped by Dial and Pass when a later call may succeed: too many connections of the
// sandbox wait at ebb, or ebb is being restarted.
var ErrBusy = errors.New("ebb cannot accept the connection now; try again later")

// forwardTimeout is how long a connection waits at most until it is forwarded: for its turn, for
// Dial, and in pauses while ebb is busy or being restarted.
const forwardTimeout = 30 * time.Second

// Pauses before Dial is called again: each is twice the one before, up to lastPause.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// relay copies in both directions until both have ended, ctx is done, or the reply stalls for
// replyTimeout.
func relay(ctx context.Context, in net.Conn, out io.ReadWriteCloser) {
	end := func() { _, _ = in.Close(), out.Close() }
	defer end()
	defer context.AfterFunc(ctx, end)()
	back := &reply{Reader: out, late: time.AfterFunc(replyTimeout, end)}
	back.late.Stop() // runs from when the sandbox has ended its direction
	defer back.late.Stop()
	var all sync.WaitGroup
	all.Go(func() {
		splice(in, back)
		_ = in.SetReadDeadline(time.Now().Add(closeGrace)) // ebb reads no more
	})
	splice(out, in)
	back.hungUp.Store(true)
	back.late.Reset(replyTimeout)
	all.Wait()
}

// replyTimeout is how long the reply may stall after the sandbox has ended its direction. For a
// machine that has disappeared the kernel would wait much longer.
const replyTimeout = 2 * time.Minute

// reply is the data from ebb. late ends the connection, and restarts whenever data arrives.
type reply struct {
	io.Reader
	late   *time.Timer
	hungUp atomic.Bool // the sandbox has ended its direction
}

// Read implements io.Reader.
func (r *reply) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 && r.hungUp.Load() {
		r.late.Reset(replyTimeout)
	}
	return n, err
}

// splice copies until from ends, then ends the write direction of to. After an error it closes to.
func splice(to io.Writer, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, can := to.(interface{ CloseWrite() error }); can && err == nil {
		_ = half.CloseWrite()
		return
	}
	if c, is := to.(io.Closer); is {
		_ = c.Close()
	}
}

// maxRemoteWaiting is how many connections of one sandbox may wait for Accept, besides the accepted
// ones. On a Unix socket they would wait in the kernel; here each holds a descriptor.
const maxRemoteWaiting = 8

var errIdentityKind = errors.New("egress: identity must be \"kernel\" or \"socket\"")
