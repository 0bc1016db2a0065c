package broker

import (
	"context"

	"ebb/scopes/policy"
)

// again is r as it would be made now, and what policy says to it. It mints nothing and
// changes nothing.
func (b *Broker) again(ctx context.Context, r Request) (policy.Effect, Request, error) {
	if b.down.Load() {
		return policy.Deny, r, unavailable(ErrLost)
	}
	live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: r.TaskID})
	if err != nil {
		return policy.Deny, r, unavailable(err)
	}
	if live.State == TaskClosed || live.Sandbox == nil {
		return policy.Deny, r, closedError()
	}
	live, err = b.underAncestors(live, func(a Admission) (Live, error) { return b.cfg.Ledger.Admit(ctx, a) })
	if err != nil {
		return policy.Deny, r, ledgerError(err)
	}
	if err := b.grounded(ctx, *live.Sandbox); err != nil {
		return policy.Deny, r, err
	}
	p, known := b.cfg.Providers[r.Provider]
	if !known {
		return policy.Deny, r, E(Conflict, "The provider of this request is no longer configured.", nil)
	}
	w := want{asker: asker{live: live, sandbox: *live.Sandbox, lineage: r.Parents}, scopes: r.Scopes, name: r.Provider, provider: p, ttl: r.TTL.Duration(), bind: r.Binding, tool: r.Tool, delivery: delivered(r)}
	d, err := b.judge(&w)
	if err != nil {
		return policy.Deny, r, unavailable(err)
	}
	// Facts of an older version have other members, and so another digest.
	var then AsAsked
	if f, err := r.Sheet(); err == nil && f.Then != nil {
		then = *f.Then
	}
	if d.Ask != nil {
		r.Approval = b.wanted(d, b.weigh(w, r.TTL, then).Result)
	}
	if r.Facts, r.Digest, err = seal(b.factsOf(r, w, d, then)); err != nil {
		return policy.Deny, r, unavailable(err)
	}
	return d.Effect, r, nil
}

// Again is a request that who may see, with its facts and their digest as they would be
// if it was made now, and what policy would say to it: an approval counts only while the
// facts are those that were seen.
func (b *Broker) Again(ctx context.Context, who Principal, id string) (policy.Effect, Request, error) {
	r, err := b.Request(ctx, who, id)
	if err != nil {
		return policy.Deny, Request{}, err
	}
	return b.again(ctx, r)
}
