package report

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Listings reads tasks, leases, requests and the audit log for people and runners.
type Listings struct {
	approvalStore broker.ApprovalStore
	store         broker.Store
	keys          *keys.Ring
	knownKeys     jose.KeySet
	logger        *slog.Logger
	policy        *policy.Live

	callers     callers
	clock       *kernel.Timekeeper
	emergencies emergencies
	fatigue     fatigue
	guard       guard
	log         *kernel.Recorder
	policies    policies
	tasks       tasks

	leases leaseTallies
}

// Task returns one task: to its runner, and any to viewers, auditors, approvers and operators.
func (l *Listings) Task(ctx context.Context, who broker.Principal, id string) (broker.Task, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleRunner, broker.RoleOperator, broker.RoleAuditor, broker.RoleApprover, broker.RoleViewer); err != nil {
		return broker.Task{}, err
	}
	t, err := l.tasks.TaskByID(ctx, id)
	if err == nil && t.Runner != who.ID && !who.Has(broker.RoleOperator, broker.RoleAuditor, broker.RoleApprover, broker.RoleViewer) {
		return broker.Task{}, kernel.NotFoundTask(id)
	}
	return t, err
}

// Tasks lists tasks by the same rule.
func (l *Listings) Tasks(ctx context.Context, who broker.Principal, f broker.TaskFilter) ([]broker.Task, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleRunner, broker.RoleOperator, broker.RoleAuditor, broker.RoleApprover, broker.RoleViewer); err != nil {
		return nil, err
	}
	if !who.Has(broker.RoleOperator, broker.RoleAuditor, broker.RoleApprover, broker.RoleViewer) {
		f.Runner = who.ID
	}
	ts, err := l.store.Tasks(ctx, f)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return ts, nil
}

// Leases lists credentials in every state. A runner must name one of its tasks.
func (l *Listings) Leases(ctx context.Context, who broker.Principal, f broker.LeaseFilter) ([]broker.Lease, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner, broker.RoleViewer); err != nil {
		return nil, err
	}
	if !who.Has(broker.RoleAuditor, broker.RoleOperator, broker.RoleViewer) {
		if _, err := l.tasks.Mine(ctx, who, broker.Certain, f.TaskID); err != nil {
			return nil, err
		}
	}
	if f.TaskID != "" && !broker.ValidID(broker.TaskPrefix, f.TaskID) {
		return nil, kernel.NotFoundTask(f.TaskID)
	}
	f.Now = l.clock.Now()
	ls, err := l.store.Leases(ctx, f)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return ls, nil
}

// ownLeases is the largest number of credentials that a sandbox is shown.
const ownLeases = 100

// OwnLeases lists the credentials issued to a sandbox for its task, newest first. A call counts
// as a token request.
func (l *Listings) OwnLeases(ctx context.Context, s broker.Subject, p broker.Possession) ([]broker.Lease, error) {
	a, err := l.callers.Ask(ctx, kernel.ToMint, s, p)
	if err != nil {
		return nil, err
	}
	ls, err := l.store.Leases(ctx, broker.LeaseFilter{TaskID: a.Live.ID, Sandbox: a.Sandbox.ID, Now: l.clock.Now(), Page: broker.Page{Limit: ownLeases, Desc: true}})
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return ls, nil
}

// Lease returns one credential.
func (l *Listings) Lease(ctx context.Context, who broker.Principal, id string) (broker.Lease, error) {
	return l.LeaseFor(ctx, who, broker.Certain, id)
}

// LeaseFor returns a lease that the principal may see or, with Doubtful, end.
func (l *Listings) LeaseFor(ctx context.Context, who broker.Principal, need broker.Standing, id string) (broker.Lease, error) {
	roles := []broker.Role{broker.RoleOperator, broker.RoleRunner}
	if need == broker.Certain {
		roles = append(roles, broker.RoleAuditor, broker.RoleViewer)
	}
	if err := broker.Allow(who, need, roles...); err != nil {
		return broker.Lease{}, err
	}
	none := broker.NoSuch("credential", id, broker.LeasePrefix, "ebb leases list")
	if !broker.ValidID(broker.LeasePrefix, id) {
		return broker.Lease{}, none
	}
	// Sure, not Now: while the clock is ahead, a live credential must not be reported as expired, so that the caller
	// can still revoke it.
	ls, err := l.store.Leases(ctx, broker.LeaseFilter{IDs: []string{id}, Now: l.clock.Sure()})
	if err != nil {
		return broker.Lease{}, broker.StoreError(err)
	}
	if len(ls) == 0 {
		return broker.Lease{}, none
	}
	if !who.Has(broker.RoleOperator) && (need == broker.Doubtful || !who.Has(broker.RoleAuditor, broker.RoleViewer)) {
		if _, err := l.tasks.Mine(ctx, who, need, ls[0].TaskID); err != nil {
			return broker.Lease{}, none
		}
	}
	return ls[0], nil
}

// Explain returns the policy's decision for a query and the reasons.
func (l *Listings) Explain(_ context.Context, who broker.Principal, q policy.Query) (policy.Explanation, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleOperator, broker.RoleAuditor, broker.RoleApprover); err != nil {
		return policy.Explanation{}, err
	}
	l.policies.Complete(&q)
	x, err := l.policy.Current().Explain(q)
	if err != nil {
		return x, broker.E(broker.Invalid, "The query cannot be evaluated: it lacks a member, or the policy language does not support it.", err)
	}
	return x, nil
}

// tallyAge is the largest age of LeaseTally: its four counts would be half of the cost of a
// page of credentials.
const tallyAge = 5 * time.Second

// LeaseTally counts all credentials. The result may be up to 5 s old; At is the time of the
// count. Callers share the result and must not change it.
func (l *Listings) LeaseTally(ctx context.Context, who broker.Principal) (broker.LeaseTally, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator, broker.RoleViewer); err != nil {
		return broker.LeaseTally{}, err
	}
	return l.leases.get(ctx, l.clock.Now(), l.store.LeaseTally)
}

// leaseTallies caches the last tally. One caller counts, the others wait for it.
type leaseTallies struct {
	once sync.Once
	turn chan struct{} // capacity 1: held by the caller that counts
	last broker.LeaseTally
}

func (c *leaseTallies) get(ctx context.Context, now time.Time, count func(context.Context, time.Time) (broker.LeaseTally, error)) (broker.LeaseTally, error) {
	c.once.Do(func() { c.turn = make(chan struct{}, 1) })
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return broker.LeaseTally{}, broker.StoreError(ctx.Err())
	}
	defer func() { <-c.turn }()
	if age := now.Sub(c.last.At); !c.last.At.IsZero() && age >= 0 && age < tallyAge {
		return c.last, nil
	}
	t, err := count(ctx, now)
	if err != nil {
		return broker.LeaseTally{}, broker.StoreError(err)
	}
	t.At = now
	c.last = t
	return t, nil
}
