package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/provider"
)

// Caller is who sends a request through egress, as the socket says by which it came.
type Caller struct {
	TaskID string
	Tool   string   // "" = any of the task's
	Above  []string // tasks that delegated to it, the runner's own first
}

// Root is the task of a runner's that the caller's began with: what is bounded for a task
// is bounded for that one and all below it.
func (c Caller) Root() string {
	if len(c.Above) > 0 {
		return c.Above[0]
	}
	return c.TaskID
}

// Usable is a credential that egress may add to the request at hand, open the session at hand
// with, or carry the connection at hand by (Reach: neither Injector nor Connector), and no
// other: what is alive now may be dead in a moment.
type Usable struct {
	Provider  string // as the configuration names it
	Target    provider.Target
	Injector  provider.Injector  // nil = it is for no request
	Connector provider.Connector // nil = it opens no session
	Bare      bool               // it adds nothing: there is no secret that could come back

	task  Task
	lease Lease
}

// Why a caller may not use it, who is told one thing for all of them.
var (
	errNotTheirs = errors.New("the lease is not the caller's")
	errNotLive   = errors.New("the lease is over")
	errInHand    = errors.New("the credential of the lease is in the sandbox's hand")
)

// Use says whether a caller may use a credential through egress now (I2): it is the
// caller's, alive, and one that never leaves ebb but in a request that egress sends.
// Whatever is wrong with it, the caller learns nothing but that. In doubt it is an
// error of kind Unavailable. What a task above its own may not, it may not either.
func (b *Broker) Use(ctx context.Context, c Caller, leaseID string) (Usable, error) {
	l, err := b.usedLease(ctx, leaseID)
	if err != nil {
		return Usable{}, err
	}
	if !theirs(l, c) {
		return Usable{}, noUse(errNotTheirs)
	}
	p, known := b.cfg.Providers[l.Provider]
	if !known {
		return Usable{}, noUse(errNotLive)
	}
	injector, injects := p.Driver.(provider.Injector)
	connector, connects := p.Driver.(provider.Connector)
	if !injects && !connects || !b.byEgress(l) {
		return Usable{}, noUse(errInHand)
	}
	t, err := b.liveUse(ctx, l)
	if err != nil {
		return Usable{}, err
	}
	handle, err := b.opened(ctx, l)
	if err != nil {
		return Usable{}, err
	}
	target := b.targetOf(l, handle)
	target.DiesAt, target.Now = earliest(l.ExpiresAt, target.DiesAt), b.now()
	return Usable{Provider: l.Provider, Injector: injector, Connector: connector, Bare: p.Driver.Traits().Bare && handle.Empty(), task: t, lease: l, Target: target}, nil
}

// liveUse counts one use of a lease, if it and its task are alive, and returns the task.
func (b *Broker) liveUse(ctx context.Context, l Lease) (Task, error) {
	if l.State != LeaseLive || !b.now().Before(l.ExpiresAt) {
		return Task{}, noUse(errNotLive)
	}
	live, err := b.admitUse(ctx, l.TaskID)
	often, isRate := errors.AsType[*RateError](err)
	switch {
	case isRate:
		return Task{}, &Error{Kind: TooMany, Public: "This task sends too many requests. Wait, then try again.", Cause: often, RetryAfter: max(often.RetryAfter, time.Millisecond)}
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrTaskClosed):
		return Task{}, noUse(errNotLive)
	case err != nil:
		return Task{}, unavailable(err)
	case live.State != TaskOpen || b.over(live): // a paused task uses nothing
		return Task{}, noUse(ErrTaskPaused)
	}
	if alive, err := b.alive(ctx, l.TaskID, l.ID); err != nil {
		return Task{}, unavailable(err)
	} else if !alive {
		return Task{}, noUse(errNotLive)
	}
	return live.Task, nil
}

// opened is the handle of a lease of which egress needs one. It is opened for each
// request: in the clear it stays only in what finds it in answers, which goes with the
// lease. What a rotation has sealed again meanwhile is read again.
func (b *Broker) opened(ctx context.Context, l Lease) (provider.Secret, error) {
	if l.Upstream == nil {
		return provider.Secret{}, nil
	}
	handle, err := b.cfg.Sealer.Open(l.ID, l.Upstream.Handle)
	if err != nil {
		b.used.Remove(l.ID)
		if l, err = b.usedLease(ctx, l.ID); err != nil {
			return provider.Secret{}, err
		}
		if l.State != LeaseLive || l.Upstream == nil || l.Upstream.Handle == "" {
			return provider.Secret{}, noUse(errNotLive)
		}
		handle, err = b.cfg.Sealer.Open(l.ID, l.Upstream.Handle)
	}
	if err != nil {
		return provider.Secret{}, unavailable(fmt.Errorf("opening what egress works from: %w", err))
	}
	return handle, nil
}

// admitUse counts a use against the task that a runner opened, so that delegating makes no
// more of them, and returns the caller's task as those above it leave it.
func (b *Broker) admitUse(ctx context.Context, taskID string) (Live, error) {
	count := func(root string) []Rate {
		return []Rate{{Key: "uses:" + root, Limit: b.cfg.Limits.UsesPerMinute, Per: time.Minute}}
	}
	a := Admission{TaskID: taskID}
	root, seen := b.roots.Get(taskID)
	if seen {
		a.Rates = count(root)
	}
	live, err := b.cfg.Ledger.Admit(ctx, a)
	if err == nil && !seen {
		b.roots.Add(taskID, live.root())
		_, err = b.cfg.Ledger.Admit(ctx, Admission{Rates: count(live.root())})
	}
	if err != nil {
		return Live{}, err
	}
	return b.underAncestors(live, func(a Admission) (Live, error) { return b.cfg.Ledger.Admit(ctx, a) })
}

func noUse(cause error) error {
	return E(Denied, "There is no such credential here, or it is over. Ask for one.", cause)
}

// usedLease is a lease from the record. What changes of one is asked of the ledger.
func (b *Broker) usedLease(ctx context.Context, id string) (Lease, error) {
	if !validID(leasePrefix, id) {
		return Lease{}, noUse(ErrNotFound)
	}
	if l, known := b.used.Get(id); known {
		return l, nil
	}
	ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{IDs: []string{id}, Now: b.now(), Handles: true, Page: Page{Limit: 1}})
	if err != nil {
		return Lease{}, unavailable(err)
	}
	if len(ls) == 0 {
		return Lease{}, noUse(ErrNotFound)
	}
	if ls[0].State == LeaseLive { // one that is not yet will be
		b.used.Add(id, ls[0])
	}
	return ls[0], nil
}
