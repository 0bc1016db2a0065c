package issuance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// Internal causes of a refused use. The caller gets the same answer for all of them.
var (
	errNotTheirs = errors.New("the lease is not the caller's")
	errNotLive   = errors.New("the lease has ended")
	errInHand    = errors.New("the credential of the lease was issued to the sandbox")
)

// Use returns the credential if the caller may use it through egress now (I2): the lease is the
// caller's, live, and delivered by egress. The answer is the same for every refusal, so that
// the caller learns no reason. An error of kind Unavailable means that it could not be decided.
// Limits of ancestor tasks apply too.
func (eu *EgressUse) Use(ctx context.Context, c broker.Caller, leaseID string) (broker.Usable, error) {
	l, err := eu.usedLease(ctx, leaseID)
	if err != nil {
		return broker.Usable{}, err
	}
	if !theirs(l, c) {
		return broker.Usable{}, noUse(errNotTheirs)
	}
	p, known := eu.providers[l.Provider]
	if !known {
		return broker.Usable{}, noUse(errNotLive)
	}
	injector, injects := p.Driver.(provider.Injector)
	connector, connects := p.Driver.(provider.Connector)
	if !injects && !connects || !eu.issuer.byEgress(l) {
		return broker.Usable{}, noUse(errInHand)
	}
	t, err := eu.liveUse(ctx, l)
	if err != nil {
		return broker.Usable{}, err
	}
	handle, err := eu.opened(ctx, l)
	if err != nil {
		return broker.Usable{}, err
	}
	var spent []broker.Spending
	if l.Content != "" || l.MaxAmount != nil {
		if spent, err = eu.store.Spent(ctx, c.Root(), l.Provider, l.OneUse()); err != nil {
			return broker.Usable{}, broker.StoreError(err)
		}
	}
	target := eu.upstream.useTarget(l, handle)
	target.DiesAt = broker.Earliest(l.ExpiresAt, target.DiesAt)
	return broker.Usable{Provider: l.Provider, Injector: injector, Connector: connector, Credentialless: p.Driver.Traits().Credentialless && handle.Empty(), Task: t, Lease: l, Spent: spent, Target: target}, nil
}

// liveUse counts one use of a lease if it and its task are live, and returns the task.
func (eu *EgressUse) liveUse(ctx context.Context, l broker.Lease) (broker.Task, error) {
	if l.State != broker.LeaseLive || !eu.clock.Now().Before(l.ExpiresAt) {
		return broker.Task{}, noUse(errNotLive)
	}
	live, err := eu.admitUse(ctx, l.TaskID)
	often, isRate := errors.AsType[*broker.RateError](err)
	switch {
	case isRate:
		return broker.Task{}, &broker.Error{Kind: broker.TooMany, Public: "This task sends too many requests. Wait, then try again.", Cause: often, RetryAfter: max(often.RetryAfter, time.Millisecond)}
	case errors.Is(err, broker.ErrNotFound), errors.Is(err, broker.ErrTaskClosed):
		return broker.Task{}, noUse(errNotLive)
	case err != nil:
		return broker.Task{}, broker.StoreError(err)
	case live.State != broker.TaskOpen || eu.admission.Over(live): // a paused task may use no credential
		return broker.Task{}, noUse(broker.ErrTaskPaused)
	}
	if alive, err := eu.callers.Alive(ctx, l.TaskID, l.ID); err != nil {
		return broker.Task{}, broker.StoreError(err)
	} else if !alive {
		return broker.Task{}, noUse(errNotLive)
	}
	return live.Task, nil
}

// opened returns the handle of a lease for egress. It is decrypted for each request; in clear
// it stays only in the redactor, which is dropped with the lease. If key rotation has sealed
// the handle again meanwhile, the lease is read again.
func (eu *EgressUse) opened(ctx context.Context, l broker.Lease) (secret.Secret, error) {
	if l.Upstream == nil {
		return secret.Secret{}, nil
	}
	handle, err := eu.sealer.Open(l.ID, l.Upstream.Handle)
	if err != nil {
		eu.used.Remove(l.ID)
		if l, err = eu.usedLease(ctx, l.ID); err != nil {
			return secret.Secret{}, err
		}
		if l.State != broker.LeaseLive || l.Upstream == nil || l.Upstream.Handle == "" {
			return secret.Secret{}, noUse(errNotLive)
		}
		handle, err = eu.sealer.Open(l.ID, l.Upstream.Handle)
	}
	if err != nil {
		return secret.Secret{}, broker.StoreError(fmt.Errorf("opening the handle for egress: %w", err))
	}
	return handle, nil
}

// admitUse counts a use against the runner's task at the top of the tree, so that delegation
// allows no more uses. It returns the caller's task as limited by its ancestors.
func (eu *EgressUse) admitUse(ctx context.Context, taskID string) (broker.Live, error) {
	count := func(root string) []broker.Rate {
		return []broker.Rate{{Key: "uses:" + root, Limit: eu.limits.UsesPerMinute, Per: time.Minute}}
	}
	a := broker.Admission{TaskID: taskID}
	root, seen := eu.roots.Get(taskID)
	if seen {
		a.Rates = count(root)
	}
	live, err := eu.liveStore.Admit(ctx, a)
	if err == nil && !seen {
		eu.roots.Add(taskID, live.Root())
		_, err = eu.liveStore.Admit(ctx, broker.Admission{Rates: count(live.Root())})
	}
	if err != nil {
		return broker.Live{}, err
	}
	return eu.tasks.UnderAncestors(live, func(a broker.Admission) (broker.Live, error) { return eu.liveStore.Admit(ctx, a) })
}

func noUse(cause error) error {
	return broker.E(broker.Denied, "There is no such credential for this task, or it has ended. Ask for a new one.", cause)
}

// usedLease returns a lease from the store, or from a cache: the live store holds the part of
// it that changes.
func (eu *EgressUse) usedLease(ctx context.Context, id string) (l broker.Lease, err error) {
	if !broker.ValidID(broker.LeasePrefix, id) {
		return l, noUse(broker.ErrNotFound)
	}
	if l, known := eu.used.Get(id); known {
		return l, nil
	}
	ls, err := eu.store.Leases(ctx, broker.LeaseFilter{IDs: []string{id}, Now: eu.clock.Now(), Handles: true, Page: broker.Page{Limit: 1}})
	if err != nil {
		return l, broker.StoreError(err)
	}
	if len(ls) == 0 {
		return l, noUse(broker.ErrNotFound)
	}
	l = ls[0]
	if l.State == broker.LeaseLive { // an intent may still become live, so it is not cached
		eu.used.Add(id, l)
	}
	return l, nil
}

// LeaseTo returns the newest live lease of a caller for an SSH host, and the latest expiry
// among all such leases. Reach checks whether it may be used now.
func (eu *EgressUse) LeaseTo(ctx context.Context, c broker.Caller, host stricturl.Host) (leaseID string, until time.Time, err error) {
	ls, err := eu.liveOf(ctx, c, func(l broker.Lease) bool { return eu.reaches(l, host) })
	switch {
	case err != nil:
		return "", time.Time{}, err
	case len(ls) == 0:
		return "", time.Time{}, noUse(errNotTheirs)
	}
	for _, l := range ls {
		if l.ExpiresAt.After(until) {
			until = l.ExpiresAt
		}
	}
	return ls[0].ID, until, nil
}

// Reach returns whether a caller may open an SSH connection to a host by a lease now (I2): the
// lease is the caller's, for this host, and live. The sandbox authenticates to the host itself,
// so that egress needs no part of the credential. An error of kind Unavailable means that it
// could not be decided.
func (eu *EgressUse) Reach(ctx context.Context, c broker.Caller, leaseID string, host stricturl.Host) (broker.Usable, error) {
	l, err := eu.usedLease(ctx, leaseID)
	if err != nil {
		return broker.Usable{}, err
	}
	if !theirs(l, c) || !eu.reaches(l, host) {
		return broker.Usable{}, noUse(errNotTheirs)
	}
	t, err := eu.liveUse(ctx, l)
	if err != nil {
		return broker.Usable{}, err
	}
	return broker.Usable{Provider: l.Provider, Task: t, Target: eu.upstream.useTarget(l, secret.Secret{})}, nil
}

// MayHaveReached returns a function that reports which SSH connections a lease, live or ended,
// may have been used in: those of its task to hosts that it covers. Only the sandbox and the
// host know which certificate was used, and tools of one task can share credentials.
func (eu *EgressUse) MayHaveReached(ctx context.Context, leaseID string) (in func(broker.Caller, stricturl.Host) bool, err error) {
	l, err := eu.usedLease(ctx, leaseID)
	if err != nil {
		return nil, err
	}
	return func(c broker.Caller, host stricturl.Host) bool {
		return l.TaskID == c.TaskID && eu.reaches(l, host)
	}, nil
}

// reaches reports whether a lease covers an SSH host.
func (eu *EgressUse) reaches(l broker.Lease, host stricturl.Host) bool {
	r, is := eu.providers[l.Provider].Driver.(provider.Reacher)
	return is && r.Reaches(l.Scopes, host)
}
