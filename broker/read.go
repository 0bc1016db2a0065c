package broker

import (
	"context"

	"ebb/scopes/policy"
)

// Task shows one task: its runner's, or any to viewers, auditors, approvers and operators.
func (b *Broker) Task(ctx context.Context, who Principal, id string) (Task, error) {
	if err := allow(who, certain, RoleRunner, RoleOperator, RoleAuditor, RoleApprover, RoleViewer); err != nil {
		return Task{}, err
	}
	t, err := b.taskByID(ctx, id)
	if err == nil && t.Runner != who.ID && !who.Has(RoleOperator, RoleAuditor, RoleApprover, RoleViewer) {
		return Task{}, notFoundTask()
	}
	return t, err
}

// Tasks lists tasks by the same rule.
func (b *Broker) Tasks(ctx context.Context, who Principal, f TaskFilter) ([]Task, error) {
	if err := allow(who, certain, RoleRunner, RoleOperator, RoleAuditor, RoleApprover, RoleViewer); err != nil {
		return nil, err
	}
	if !who.Has(RoleOperator, RoleAuditor, RoleApprover, RoleViewer) {
		f.Runner = who.ID
	}
	ts, err := b.cfg.Journal.Tasks(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	return ts, nil
}

// Leases lists credentials, issued and revoked. A runner sees those of one of
// its tasks and names it.
func (b *Broker) Leases(ctx context.Context, who Principal, f LeaseFilter) ([]Lease, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator, RoleRunner, RoleViewer); err != nil {
		return nil, err
	}
	if !who.Has(RoleAuditor, RoleOperator, RoleViewer) {
		if _, err := b.mine(ctx, who, certain, f.TaskID); err != nil {
			return nil, err
		}
	}
	f.Now = b.now()
	ls, err := b.cfg.Journal.Leases(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	return ls, nil
}

// ownLeases is how many credentials a sandbox is shown, the newest of them.
const ownLeases = 100

// OwnLeases lists what a sandbox has been given for its task, the newest first. It
// counts as asking for a credential does.
func (b *Broker) OwnLeases(ctx context.Context, s Subject, p Possession) ([]Lease, error) {
	a, err := b.ask(ctx, toMint, s, p)
	if err != nil {
		return nil, err
	}
	ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{TaskID: a.live.ID, Sandbox: a.sandbox.ID, Now: b.now(), Page: Page{Limit: ownLeases, Desc: true}})
	if err != nil {
		return nil, unavailable(err)
	}
	return ls, nil
}

// Lease shows one credential.
func (b *Broker) Lease(ctx context.Context, who Principal, id string) (Lease, error) {
	return b.leaseFor(ctx, who, certain, id)
}

// leaseFor loads a lease that who may see, or end.
func (b *Broker) leaseFor(ctx context.Context, who Principal, need standing, id string) (Lease, error) {
	roles := []Role{RoleOperator, RoleRunner}
	if need == certain {
		roles = append(roles, RoleAuditor, RoleViewer)
	}
	if err := allow(who, need, roles...); err != nil {
		return Lease{}, err
	}
	none := E(NotFound, "There is no such credential.", nil)
	if !validID(leasePrefix, id) {
		return Lease{}, none
	}
	ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{IDs: []string{id}, Now: b.now()})
	if err != nil {
		return Lease{}, unavailable(err)
	}
	if len(ls) == 0 {
		return Lease{}, none
	}
	if !who.Has(RoleOperator) && (need == doubtful || !who.Has(RoleAuditor, RoleViewer)) {
		if _, err := b.mine(ctx, who, need, ls[0].TaskID); err != nil {
			return Lease{}, none
		}
	}
	return ls[0], nil
}

// Explain says what policy would decide and why.
func (b *Broker) Explain(_ context.Context, who Principal, q policy.Query) (policy.Explanation, error) {
	if err := allow(who, certain, RoleOperator, RoleAuditor, RoleApprover); err != nil {
		return policy.Explanation{}, err
	}
	b.complete(&q)
	x, err := b.cfg.Policy.Current().Explain(q)
	if err != nil {
		return x, E(Invalid, "The query cannot be judged: it lacks a member or policy does not understand it.", err)
	}
	return x, nil
}
