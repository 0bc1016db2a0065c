package egress

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ebb/broker"
)

// Runners says who may open boxes, and keeps the record of them; *broker.Broker does.
type Runners interface {
	NewBox(ctx context.Context, who broker.Principal, taskID string, spec broker.BoxSpec) (broker.Box, error)
	MayBox(ctx context.Context, who broker.Principal, taskID string) error
	TaskOver(taskID string, above ...string) bool
	BoxRecord
}

// BoxRecord is what of boxes is on the record. Opened and Registered are true only when
// they are.
type BoxRecord interface {
	BoxOpened(ctx context.Context, who broker.Principal, x broker.Box) error
	BoxRegistered(ctx context.Context, who broker.Principal, x broker.Box, namespace uint64) error
	BoxGone(ctx context.Context, actor string, x broker.Box, why string)
	BoxStranger(ctx context.Context, x broker.Box, namespace uint64, why string)
}

// BoxConfig is what NewBoxes needs.
type BoxConfig struct {
	Proxy    *Proxy             // required
	Runners  Runners            // required
	Dir      string             // required: absolute, of this process alone; sockets are below
	Identity broker.BoxIdentity // of boxes of this machine: BoxByKernel or BoxBySocket; "" = by the kernel
	// Remote lets runners open boxes that are on other machines (broker.BoxByRunner).
	Remote bool
	// Key is what the keys of the CAs are derived from. With the same key a box that is opened anew after
	// a restart has the CA that its sandbox trusts. nil = another key at each start.
	Key []byte
	// PerTask is how many boxes a task has at one time; 0 = 64.
	PerTask int
	Logger  *slog.Logger     // nil = discard
	Now     func() time.Time // nil = time.Now
}

// Boxes are the boxes that are open in this process. It is a broker.Cutter. It is safe
// for concurrent use.
type Boxes struct {
	cfg    BoxConfig
	kernel kernel
	ctx    context.Context // ends with Close
	stop   context.CancelCauseFunc
	served sync.WaitGroup

	waiting places // for connections that runners hand on, until their boxes take them

	mu sync.Mutex
	of map[string]map[string]*opened // by task, by id
}

// opened is a box that is open here.
type opened struct {
	cut context.CancelCauseFunc
	l   entrance

	mu  sync.Mutex // of a registration under way
	box broker.Box // State is that of l; use view
}

// NewBoxes makes what opens boxes. What an earlier process left in the directory is
// removed: it leads nowhere.
func NewBoxes(c BoxConfig) (*Boxes, error) {
	if c.Proxy == nil || c.Runners == nil || c.Dir == "" {
		return nil, errors.New("egress: Proxy, Runners and Dir are required")
	}
	if c.Identity == "" {
		c.Identity = broker.BoxByKernel
	}
	if c.Identity != broker.BoxByKernel && c.Identity != broker.BoxBySocket {
		return nil, errBoxWho
	}
	if c.Key == nil {
		c.Key = make([]byte, 32)
		_, _ = rand.Read(c.Key) // never fails (crypto/rand)
	}
	if c.PerTask <= 0 {
		c.PerTask = 64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if err := clearSockets(c.Dir); err != nil {
		return nil, fmt.Errorf("egress: the directory of boxes: %w", err)
	}
	b := &Boxes{cfg: c, of: map[string]map[string]*opened{}, waiting: newPlaces(maxWaiting)}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	if c.Identity == broker.BoxByKernel {
		b.kernel = newKernel()
	}
	return b, nil
}

// Kernel says why boxes of this machine cannot be told apart by the kernel; nil: they can, or need not.
func (b *Boxes) Kernel() error { return b.kernel.err }

var (
	errManyBoxes = broker.E(broker.Conflict, "The task has as many boxes as it may have. Close one.", nil)
	errStopping  = broker.E(broker.Unavailable, "This ebb is stopping. Try again.", nil)
	errNoBox     = broker.E(broker.NotFound, "There is no such box here. A box is open at the ebb that opened it, until its task ends.", nil)
)

// Open makes a way out for a tool of a task, and the socket that leads to it; a box of another
// machine has none here, see Enter.
func (b *Boxes) Open(ctx context.Context, who broker.Principal, taskID string, spec broker.BoxSpec) (broker.Box, error) {
	x, err := b.cfg.Runners.NewBox(ctx, who, taskID, spec)
	if err != nil {
		return broker.Box{}, err
	}
	if x.Identity, err = b.identity(spec.Identity); err != nil {
		return broker.Box{}, err
	}
	ca, err := derivedCA(b.cfg.Key, x, b.cfg.Now)
	if err != nil {
		return broker.Box{}, broker.E(broker.Unavailable, "The box could not be made.", err)
	}
	x.CA = string(ca.PEM())
	b.replace(x)
	l, err := b.entrance(&x, spec.Forward, func(ns uint64, err error) { b.cfg.Runners.BoxStranger(b.ctx, x, ns, err.Error()) })
	if err != nil {
		return broker.Box{}, err
	}
	if err := b.cfg.Runners.BoxOpened(ctx, who, x); err != nil {
		return broker.Box{}, errors.Join(err, l.Close())
	}
	o := &opened{box: x, l: l}
	if err := b.serve(o, ca); err != nil {
		_ = l.Close()
		b.cfg.Runners.BoxGone(ctx, broker.Self, x, "not opened")
		return broker.Box{}, err
	}
	return o.view(), nil
}

// replace ends a box that is open here still, and is about to be opened anew: its runner has lost it.
func (b *Boxes) replace(x broker.Box) {
	b.mu.Lock()
	o := b.of[x.TaskID][x.ID]
	b.mu.Unlock()
	if o != nil {
		o.cut(ErrBox)
		b.forget(o)
	}
}

// serve lets a box begin, unless its task has ended meanwhile.
func (b *Boxes) serve(o *opened, ca *CA) error {
	ctx, cut := context.WithCancelCause(b.ctx)
	o.cut = cut
	ctx, done := b.cfg.Proxy.begin(ctx, o.box.Caller()) // who ends its task from here on finds it
	over := func() {
		done()
		cut(nil)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	task := o.box.TaskID
	switch {
	case b.ctx.Err() != nil:
		over()
		return errStopping
	case b.cfg.Runners.TaskOver(task, o.box.Above...):
		over()
		return broker.E(broker.Conflict, "The task is complete. Nothing of it is alive and nothing mints for it again.", broker.ErrTaskClosed)
	case len(b.of[task]) >= b.cfg.PerTask:
		over()
		return errManyBoxes
	}
	if b.of[task] == nil {
		b.of[task] = map[string]*opened{}
	}
	b.of[task][o.box.ID] = o
	b.served.Go(func() {
		err := b.cfg.Proxy.serve(ctx, o.l, o.box.Caller(), ca)
		over()
		b.forget(o)
		if why(err) == "failed" {
			b.cfg.Logger.WarnContext(ctx, "a box ended by itself", "task_id", task, "box", o.box.ID, "error", err)
		}
		b.cfg.Runners.BoxGone(context.WithoutCancel(ctx), broker.Self, o.box, why(err))
	})
	return nil
}

// why is the end of a box in one word.
func why(err error) string {
	switch {
	case errors.Is(err, ErrOver):
		return "task"
	case errors.Is(err, ErrBox):
		return "closed"
	case errors.Is(err, errStopping):
		return "stopped"
	}
	return "failed"
}

func (b *Boxes) forget(o *opened) {
	_ = o.l.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.of[o.box.TaskID]; of[o.box.ID] == o {
		if delete(of, o.box.ID); len(of) == 0 {
			delete(b.of, o.box.TaskID)
		}
	}
}

// End implements broker.Cutter.
func (b *Boxes) End(id string) { b.cfg.Proxy.End(id) }

// MayHaveOpened implements broker.Cutter.
func (b *Boxes) MayHaveOpened(taskID, leaseID string) { b.cfg.Proxy.MayHaveOpened(taskID, leaseID) }

// Pause implements broker.Cutter.
func (b *Boxes) Pause(taskID string) { b.cfg.Proxy.Pause(taskID) }

// Doubt implements broker.Cutter.
func (b *Boxes) Doubt() { b.cfg.Proxy.Doubt() }

// endTime is how long Close waits for the ends of requests to be on the record.
const endTime = 10 * time.Second

// Close ends every box and waits for them. Requests that are under way are told that ebb is stopping.
func (b *Boxes) Close() error {
	b.mu.Lock() // none begins any more
	b.stop(errStopping)
	b.mu.Unlock()
	b.served.Wait()
	b.cfg.Proxy.ends.wait(endTime)
	return nil
}
