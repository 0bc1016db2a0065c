package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ebb/broker"
)

// Door is the socket of a box on the machine of its runner, where its ebb is not (broker.BoxByRunner).
// Who connects is asked of the kernel there, as Boxes asks it of a box of its own.
type Door struct {
	*door
	kernel kernel
}

// ErrKernel is wrapped where a box cannot be known by the kernel's word.
var ErrKernel = errors.New("this machine does not say in which network namespace a process is that connects, which takes Linux 6.11")

// NewDoor makes the socket of a box below dir, which is of this user alone. by is BoxByKernel, and
// nobody is let in before Register, or BoxBySocket. strange is told of those who are not let in.
func NewDoor(dir string, x broker.Box, by broker.BoxIdentity, strange func(namespace uint64, err error)) (*Door, error) {
	d := &Door{}
	switch by {
	case broker.BoxByKernel:
		if d.kernel = newKernel(); d.kernel.err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKernel, d.kernel.err)
		}
	case broker.BoxBySocket:
	default:
		return nil, errBoxWho
	}
	if n := len(x.ID); n < 16 || !socketDirs.MatchString(x.ID[n-16:]) { // it becomes the name of a directory
		return nil, errors.New("what ebb calls the box is no id of one")
	}
	l, err := listen(dir, x.ID)
	if err != nil {
		return nil, err
	}
	l.strange = strange
	if by == broker.BoxBySocket {
		l.admit(func(peer) error { return nil })
	}
	d.door = l
	return d, nil
}

// Socket is the path of the socket.
func (d *Door) Socket() string { return d.path() }

// Register says which network namespace is the box's, by its inode, once.
func (d *Door) Register(namespace uint64) error {
	if namespace == 0 || namespace == d.kernel.own {
		return errors.New("a box has a network namespace of its own, and no process outside of it shares that")
	}
	d.register(namespace)
	return nil
}

// Carrier hands the connections of a box on to its ebb.
type Carrier struct {
	// Dial is required; client.Operator.ConnectBox does it. ErrBusy has it called again a little later.
	Dial   func(context.Context) (io.ReadWriteCloser, error)
	Logger *slog.Logger // nil = discard
}

// maxCarried is how many connections are handed on at one time: as many as a box has at its ebb, where
// nobody has set another number. Those beyond wait in the kernel.
const maxCarried = 64

// A connection costs ebb a handshake, a proof and a line of its log. Those of a box come few at one
// time, fewer than may wait there, and so many a second.
const (
	maxOpening = maxHanded / 2
	openRate   = 50
)

// acceptPause is how long Serve waits when a connection could not be taken, as for want of descriptors.
const acceptPause = 100 * time.Millisecond

// Serve takes the connections of l until ctx is done or l fails. It closes l and ends all of them.
func (c Carrier) Serve(ctx context.Context, l net.Listener) error {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer func() { _ = l.Close() }() // when Serve returns it is closed, whoever has begun to
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	room, opening := make(chan struct{}, maxCarried), make(chan struct{}, maxOpening)
	pace, complaints := rate.NewLimiter(openRate, maxCarried), rate.Sometimes{Interval: time.Second}
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
			complaints.Do(func() {
				c.Logger.WarnContext(ctx, "a connection of the box could not be taken", "error", err)
			})
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		all.Go(func() {
			defer func() { <-room }()
			out, err := c.dial(ctx, opening, pace)
			if err != nil {
				if ctx.Err() != nil {
					_ = conn.Close() // nobody is told anything
					return
				}
				complaints.Do(func() {
					c.Logger.WarnContext(ctx, "a connection of the box could not be handed on", "error", err)
				})
				sayGone(conn, Doubt)
				_ = conn.Close()
				return
			}
			carry(ctx, conn, out)
		})
	}
}

// dial makes the way for one connection, when it is its turn.
func (c Carrier) dial(ctx context.Context, opening chan struct{}, pace *rate.Limiter) (io.ReadWriteCloser, error) {
	if err := pace.Wait(ctx); err != nil {
		return nil, err
	}
	select {
	case opening <- struct{}{}:
		defer func() { <-opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for pause := firstPause; ; pause *= 2 {
		out, err := c.Dial(ctx)
		if !errors.Is(err, ErrBusy) || pause > lastPause {
			return out, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ErrBusy is what Dial wraps where as many connections of the box wait as may wait.
var ErrBusy = errors.New("too many connections of the box wait at its ebb")

// Pauses before Dial is called again, each twice the one before: some 10 s in all.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
)

// carry hands one connection on. Nothing of it goes on when either side has ended it, or ctx has.
func carry(ctx context.Context, in net.Conn, out io.ReadWriteCloser) {
	defer func() { _, _ = in.Close(), out.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })()
	var back sync.WaitGroup
	back.Go(func() {
		splice(in, out)
		_ = in.SetReadDeadline(time.Now().Add(farewell)) // ebb hears no more
	})
	splice(out, in)
	// Of a machine that is gone without a word the kernel would wait for an answer much longer.
	late := time.AfterFunc(answerLate, func() { _ = out.Close() })
	defer late.Stop()
	back.Wait()
}

// answerLate is how long what a box has asked for may take when the box has hung up.
const answerLate = 2 * time.Minute

// splice copies until from ends, and says so to the other.
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
