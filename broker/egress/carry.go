package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// ErrBoxID is NewDoor's of a box that ebb cannot have named so.
var ErrBoxID = errors.New("what ebb calls the box is no id of one")

// KernelKnows is ErrKernel, wrapped, where NewDoor would refuse BoxByKernel.
func KernelKnows() error { return newKernel().refusal() }

func (k kernel) refusal() error {
	if k.err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrKernel, k.err)
}

// NewDoor makes the socket of a box below dir, which is of this user alone. by is BoxByKernel, and
// nobody is let in before Register, or BoxBySocket. strange is told of those who are not let in.
func NewDoor(dir string, x broker.Box, by broker.BoxIdentity, strange func(namespace uint64, err error)) (*Door, error) {
	d := &Door{}
	switch by {
	case broker.BoxByKernel:
		if d.kernel = newKernel(); d.kernel.err != nil {
			return nil, d.kernel.refusal()
		}
	case broker.BoxBySocket:
	default:
		return nil, errBoxWho
	}
	if n := len(x.ID); n < 16 || !socketDirs.MatchString(x.ID[n-16:]) { // it becomes the name of a directory
		return nil, ErrBoxID
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
	// Dial is required where Pass is not set; client.Operator.ConnectBox does it. Its context ends the call, and not the
	// connection that came of it. ErrBusy has it called again a little later.
	Dial func(context.Context) (io.ReadWriteCloser, error)
	// Pass is for an ebb on this machine, instead of Dial: it passes a whole connection on, which is closed
	// here afterwards. Its context ends with Serve. ErrBusy has it called again a little later.
	Pass func(context.Context, *net.UnixConn) error
	// Failed hears why a connection could not be taken or handed on, at most once a second and by one
	// goroutine at a time; nil = nobody does.
	Failed func(error)
}

// maxCarried is how many connections are handed on at one time: as many as a box has at its ebb, where
// nobody has set another number. Those beyond wait in the kernel.
const maxCarried = 64

// A call of Dial costs ebb a handshake, a proof and a line of its log. Those for a box come few at one
// time, fewer than may wait there, and so many a second.
const (
	maxOpening = maxHanded / 2
	openRate   = 50
)

// acceptPause is how long Serve waits when a connection could not be taken, as for want of descriptors.
const acceptPause = 100 * time.Millisecond

// Serve takes the connections of l until ctx is done or l is closed. It closes l and ends all of them.
func (c Carrier) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer func() { _ = l.Close() }() // when Serve returns it is closed, whoever has begun to
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	room, opening := make(chan struct{}, maxCarried), make(chan struct{}, maxOpening)
	pace, complaints := rate.NewLimiter(openRate, maxCarried), rate.Sometimes{Interval: time.Second}
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
				told := ctx.Err() == nil // otherwise nobody is
				if told {
					sayGone(conn, Doubt)
				}
				_ = conn.Close()
				if told { // now that the box has nothing to wait for: who hears it may be slow
					failed(err)
				}
			}
		})
	}
}

// forward hands one connection on, and ends it unless it returns an error.
func (c Carrier) forward(ctx context.Context, conn net.Conn, opening chan struct{}, pace *rate.Limiter) error {
	if u, is := conn.(*net.UnixConn); is && c.Pass != nil {
		err := again(ctx, func() error { return c.Pass(ctx, u) })
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	out, err := c.dial(ctx, opening, pace)
	if err == nil {
		carry(ctx, conn, out)
	}
	return err
}

// dial makes the way for one connection, before turnLate is over.
func (c Carrier) dial(ctx context.Context, opening chan struct{}, pace *rate.Limiter) (out io.ReadWriteCloser, err error) {
	ctx, cancel := context.WithTimeout(ctx, turnLate)
	defer cancel()
	err = again(ctx, func() (err error) {
		if err = turn(ctx, opening, pace); err == nil {
			out, err = c.Dial(ctx)
			<-opening // who pauses keeps nobody from a turn
		}
		return err
	})
	return out, err
}

// again calls try until it returns something else than ErrBusy, in pauses, until turnLate after the first
// ErrBusy.
func again(ctx context.Context, try func() error) error {
	var busy error // says more than that the time is over
	var late <-chan time.Time
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrBusy):
			return cmp.Or(busy, err)
		case busy == nil:
			late = time.After(turnLate)
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

// turn waits until Dial may be called once more, and takes a place in opening for it.
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

// ErrBusy is what Dial and Pass wrap where a little later they may do better: as many connections of the box
// wait at its ebb as may wait, or ebb is being restarted.
var ErrBusy = errors.New("ebb cannot take the connection now")

// turnLate is how long a connection waits at most until it is handed on: for its turn, for Dial, and in
// pauses while its ebb is busy or being restarted.
const turnLate = 30 * time.Second

// Pauses before Dial is called again: each twice the one before, up to lastPause.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)
