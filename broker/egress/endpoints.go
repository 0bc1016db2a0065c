package egress

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/issuance"
)

// Runners decides which runners may open endpoints, and records endpoints; *broker.Broker
// implements it.
type Runners interface {
	NewEgressEndpoint(ctx context.Context, who broker.Principal, taskID string, spec broker.EgressEndpointSpec) (broker.EgressEndpoint, error)
	MayOpenEndpoint(ctx context.Context, who broker.Principal, taskID string) error
	TaskOver(taskID string, above ...string) bool
	EndpointRecord
}

// EndpointRecord writes the events of endpoints to the audit log. An endpoint is opened or
// registered only after EndpointOpened or EndpointRegistered has succeeded.
type EndpointRecord interface {
	EndpointOpened(ctx context.Context, who broker.Principal, x broker.EgressEndpoint) error
	EndpointRegistered(ctx context.Context, who broker.Principal, x broker.EgressEndpoint, namespace uint64) error
	EndpointGone(ctx context.Context, actor string, x broker.EgressEndpoint, why string)
	EndpointStranger(ctx context.Context, x broker.EgressEndpoint, namespace uint64, why string)
}

// EndpointsConfig is what NewEndpoints needs.
type EndpointsConfig struct {
	Proxy    *Proxy                  // required
	Runners  Runners                 // required
	Dir      string                  // required: absolute path of a directory that only this process uses; sockets are below it
	Identity broker.EndpointIdentity // for sandboxes on this machine: EndpointByKernel or EndpointBySocket; "" = EndpointByKernel
	// Remote allows endpoints for sandboxes on other machines (broker.EndpointByRunner).
	Remote bool
	// Key is the secret that the keys of the CAs are derived from. With the same key, an endpoint
	// that is opened again after a restart has the CA that its sandbox trusts. nil = a random key
	// at each start.
	Key []byte
	// PerTask is how many endpoints a task may have open; 0 = 64.
	PerTask int
	Logger  *slog.Logger     // nil = discard
	Now     func() time.Time // nil = time.Now
}

// Endpoints are the open egress endpoints of this process. Endpoints implements broker.RevocationListener and
// is safe for concurrent use.
type Endpoints struct {
	cfg    EndpointsConfig
	kernel kernel
	ctx    context.Context // ends with Close
	stop   context.CancelCauseFunc
	served sync.WaitGroup

	waiting connectionLimit // for connections that runners have passed on and no endpoint has accepted yet

	mu sync.Mutex
	of map[string]map[string]*openEndpoint // by task id, then by sandbox id
}

// openEndpoint is an endpoint that is open in this process.
type openEndpoint struct {
	disconnect context.CancelCauseFunc
	l          endpointListener

	mu       sync.Mutex            // held during a registration
	endpoint broker.EgressEndpoint // its State is that of l: use view
}

// NewEndpoints returns Endpoints with none open. It removes the sockets that an earlier process
// left in the directory.
func NewEndpoints(c EndpointsConfig) (*Endpoints, error) {
	if c.Proxy == nil || c.Runners == nil || c.Dir == "" {
		return nil, errors.New("egress: Proxy, Runners and Dir are required")
	}
	if c.Identity == "" {
		c.Identity = broker.EndpointByKernel
	}
	if c.Identity != broker.EndpointByKernel && c.Identity != broker.EndpointBySocket {
		return nil, errIdentityKind
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
		return nil, fmt.Errorf("egress: cannot prepare the socket directory: %w", err)
	}
	b := &Endpoints{cfg: c, of: map[string]map[string]*openEndpoint{}, waiting: newConnectionLimit(maxWaiting)}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	if c.Identity == broker.EndpointByKernel {
		b.kernel = newKernel()
	}
	return b, nil
}

// Kernel returns why the kernel of this machine cannot identify the peers of sockets; nil = it can,
// or it is not asked.
func (b *Endpoints) Kernel() error { return b.kernel.err }

var (
	errManyEndpoints = broker.E(broker.Conflict, "The task has as many open egress endpoints as it may have. Close one, then try again.", nil)
	errNoEndpoint    = broker.E(broker.NotFound, "This ebb has no such egress endpoint. An endpoint is open at the ebb that opened it, until its task ends.", nil)
)

// Open opens an endpoint for a tool of a task, and the socket of the endpoint. For a sandbox on
// another machine there is no socket here: see Enter.
func (b *Endpoints) Open(ctx context.Context, who broker.Principal, taskID string, spec broker.EgressEndpointSpec) (broker.EgressEndpoint, error) {
	x, err := b.cfg.Runners.NewEgressEndpoint(ctx, who, taskID, spec)
	if err != nil {
		return broker.EgressEndpoint{}, err
	}
	if x.Identity, err = b.identity(spec.Identity); err != nil {
		return broker.EgressEndpoint{}, err
	}
	ca, err := derivedCA(b.cfg.Key, x, b.cfg.Now)
	if err != nil {
		return broker.EgressEndpoint{}, broker.E(broker.Unavailable, "The egress endpoint could not be opened.", err)
	}
	x.CA = string(ca.PEM())
	b.replace(x)
	l, err := b.endpointListener(&x, spec.Forward, func(ns uint64, err error) { b.cfg.Runners.EndpointStranger(b.ctx, x, ns, err.Error()) })
	if err != nil {
		return broker.EgressEndpoint{}, err
	}
	if err := b.cfg.Runners.EndpointOpened(ctx, who, x); err != nil {
		return broker.EgressEndpoint{}, errors.Join(err, l.Close())
	}
	o := &openEndpoint{endpoint: x, l: l}
	if err := b.serve(o, ca); err != nil {
		_ = l.Close()
		b.cfg.Runners.EndpointGone(ctx, issuance.Self, x, "not opened")
		return broker.EgressEndpoint{}, err
	}
	return o.view(), nil
}

// replace closes an endpoint that is about to be opened again, because its runner has lost it.
func (b *Endpoints) replace(x broker.EgressEndpoint) {
	b.mu.Lock()
	o := b.of[x.TaskID][x.ID]
	b.mu.Unlock()
	if o != nil {
		o.disconnect(errEndpointClosed)
		b.forget(o)
	}
}

// serve starts to serve an endpoint, unless its task has ended meanwhile or has too many endpoints.
func (b *Endpoints) serve(o *openEndpoint, ca *CA) error {
	ctx, disconnect := context.WithCancelCause(b.ctx)
	o.disconnect = disconnect
	ctx, done := b.cfg.Proxy.begin(ctx, o.endpoint.Caller()) // from here on the end of the task ends it
	over := func() {
		done()
		disconnect(nil)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	task := o.endpoint.TaskID
	switch {
	case b.ctx.Err() != nil:
		over()
		return errStopping
	case b.cfg.Runners.TaskOver(task, o.endpoint.Above...):
		over()
		return broker.E(broker.Conflict, "The task is complete. Nothing of it is alive and nothing mints for it again.", broker.ErrTaskClosed)
	case len(b.of[task]) >= b.cfg.PerTask:
		over()
		return errManyEndpoints
	}
	if b.of[task] == nil {
		b.of[task] = map[string]*openEndpoint{}
	}
	b.of[task][o.endpoint.ID] = o
	b.served.Go(func() {
		err := b.cfg.Proxy.serve(ctx, o.l, o.endpoint.Caller(), ca)
		over()
		b.forget(o)
		if endReason(err) == "failed" {
			b.cfg.Logger.WarnContext(ctx, "an egress endpoint failed", "task_id", task, "endpoint", o.endpoint.ID, "error", err)
		}
		b.cfg.Runners.EndpointGone(context.WithoutCancel(ctx), issuance.Self, o.endpoint, endReason(err))
	})
	return nil
}

// endReason returns the reason for the end of an endpoint as one word for the audit log.
func endReason(err error) string {
	switch {
	case errors.Is(err, ErrOver):
		return "task"
	case errors.Is(err, errEndpointClosed):
		return "closed"
	case errors.Is(err, errStopping):
		return "stopped"
	}
	return "failed"
}

func (b *Endpoints) forget(o *openEndpoint) {
	_ = o.l.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.of[o.endpoint.TaskID]; of[o.endpoint.ID] == o {
		if delete(of, o.endpoint.ID); len(of) == 0 {
			delete(b.of, o.endpoint.TaskID)
		}
	}
}

// End implements broker.RevocationListener.
func (b *Endpoints) End(id string) { b.cfg.Proxy.End(id) }

// MayHaveOpened implements broker.RevocationListener.
func (b *Endpoints) MayHaveOpened(taskID, leaseID string) { b.cfg.Proxy.MayHaveOpened(taskID, leaseID) }

// Pause implements broker.RevocationListener.
func (b *Endpoints) Pause(taskID string) { b.cfg.Proxy.Pause(taskID) }

// Doubt implements broker.RevocationListener.
func (b *Endpoints) Doubt() { b.cfg.Proxy.Doubt() }

// completionWait is how long Close waits for the completion entries of requests in the audit log.
const completionWait = 10 * time.Second

// Close closes every endpoint and waits for them. Running requests are answered with the reason
// that ebb is stopping.
func (b *Endpoints) Close() error {
	b.close(completionWait)
	return nil
}

func (b *Endpoints) close(patience time.Duration) {
	b.mu.Lock() // no endpoint starts from here on
	b.stop(errStopping)
	b.mu.Unlock()
	b.served.Wait()
	if n := b.cfg.Proxy.pending.wait(patience); n > 0 {
		b.cfg.Logger.Error("ebb stops before the audit log has all completion entries; for these requests it has only egress.allowed", "requests", n)
	}
}

// find returns an open endpoint of a task, if the principal may use it.
func (b *Endpoints) find(ctx context.Context, who broker.Principal, taskID, id string) (*openEndpoint, error) {
	if err := b.cfg.Runners.MayOpenEndpoint(ctx, who, taskID); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.of[taskID][id]; o != nil {
		return o, nil
	}
	return nil, errNoEndpoint
}

// Register sets the network namespace, by its inode, whose processes an endpoint admits. It can be
// set only once. An endpoint that does not identify peers by the kernel is returned unchanged.
func (b *Endpoints) Register(ctx context.Context, who broker.Principal, taskID, id string, namespace uint64) (broker.EgressEndpoint, error) {
	o, err := b.find(ctx, who, taskID, id)
	if err != nil {
		return broker.EgressEndpoint{}, err
	}
	d := socketListenerOf(o.l)
	if d == nil || o.endpoint.Identity != broker.EndpointByKernel {
		return o.view(), nil
	}
	if namespace == 0 || b.kernel.own == namespace {
		return broker.EgressEndpoint{}, broker.E(broker.Invalid, "network_namespace must be the inode of the sandbox's own network namespace, and not that of ebb.", nil)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if said, is := d.registered(); is {
		if said != namespace {
			return broker.EgressEndpoint{}, broker.E(broker.Conflict, "The sandbox is registered with another network namespace. Open another egress endpoint.", nil)
		}
		return o.view(), nil
	}
	if err := b.cfg.Runners.EndpointRegistered(ctx, who, o.endpoint, namespace); err != nil {
		return broker.EgressEndpoint{}, err
	}
	d.register(namespace)
	return o.view(), nil
}

// Shut closes an endpoint. When it returns, the contexts of all requests and connections of the
// endpoint have ended.
func (b *Endpoints) Shut(ctx context.Context, who broker.Principal, taskID, id string) (broker.EgressEndpoint, error) {
	o, err := b.find(ctx, who, taskID, id)
	if err != nil {
		return broker.EgressEndpoint{}, err
	}
	o.disconnect(errEndpointClosed)
	b.forget(o)
	x := o.view()
	x.State = broker.EndpointClosed
	return x, nil
}

func (o *openEndpoint) view() broker.EgressEndpoint {
	x := o.endpoint
	if o.l.open() {
		x.State = broker.EndpointOpen
	}
	return x
}
