package broker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"ebb/broker/policyset"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// PolicyAnswer is what one set says to a query.
type PolicyAnswer struct {
	policy.Explanation
	// Granted is the largest scope at the providers of the query that the set grants to the
	// same asker with no question, as far as its policies name it, and GrantedTTL for how long.
	Granted    scopes.Set
	GrantedTTL time.Duration
}

// PolicyTrial is what the set in force says to a query, and beside it what a draft says.
type PolicyTrial struct {
	Query    policy.Query
	Live     PolicyAnswer
	Draft    *PolicyAnswer // nil = no draft was named
	Diff     []string      // what the draft decides differently, one line each
	Wider    bool          // the draft grants more
	Narrower bool          // it grants less, and nothing more
}

// TryPolicies says what would happen. Whoever names a draft must be allowed to see it.
func (b *Broker) TryPolicies(ctx context.Context, who Principal, q policy.Query, draft string) (PolicyTrial, error) {
	if err := allow(who, certain, RoleOperator, RoleAuditor, RoleApprover); err != nil {
		return PolicyTrial{}, err
	}
	b.complete(&q)
	out := PolicyTrial{Query: q}
	var err error
	if out.Live, err = answer(b.cfg.Policy.Current(), q, b.cfg.Limits.MaxTTL); err != nil || draft == "" {
		return out, err
	}
	d, err := b.PolicyDraft(ctx, who, draft)
	if err != nil {
		return out, err
	}
	set, err := policyset.Load(d.Files)
	if err != nil {
		return out, E(Conflict, "This version of ebb cannot read the draft. Its author saves it again.", err)
	}
	a, err := answer(set, q, b.cfg.Limits.MaxTTL)
	if err != nil {
		return out, err
	}
	out.Draft, out.Diff = &a, policy.Differences(out.Live.Decision, a.Decision)
	out.Wider = policy.Wider(out.Live.Decision, a.Decision)
	out.Narrower = !out.Wider && policy.Wider(a.Decision, out.Live.Decision)
	return out, nil
}

// complete completes a query that does not say how what is minted is delivered and can be
// taken back: as it would be for its scopes.
func (b *Broker) complete(q *policy.Query) {
	p, one := b.cfg.Providers[strings.Join(q.Scopes.Providers(), " ")]
	if q.Delivery == "" && one {
		q.Delivery = b.delivery(want{provider: p, scopes: q.Scopes}, "")
	}
	q.Delivery = cmp.Or(q.Delivery, policy.DeliveryToken)
	if one {
		q.CouldStay = q.CouldStay || b.couldStay(p, q.Scopes, q.Delivery)
	}
	if q.Revocability != "" {
		return
	}
	r := provider.Revocability{Class: provider.ClassInstant}
	for _, name := range q.Scopes.Providers() {
		p, known := b.cfg.Providers[name]
		if !known {
			r = provider.Revocability{Class: provider.ClassTTLOnly}
			break
		}
		r = weaker(r, promised(p))
	}
	q.Revocability, q.Bound = string(r.Class), r.Bound
}

func answer(set *policy.Set, q policy.Query, longest time.Duration) (PolicyAnswer, error) {
	x, err := set.Explain(q)
	if err != nil {
		return PolicyAnswer{}, E(Invalid, "The query cannot be judged: it lacks a member or policy does not understand it.", err)
	}
	out := PolicyAnswer{Explanation: x}
	all := q
	all.TTL = longest
	if all.Scopes, err = everythingAt(q.Scopes.Providers()); err != nil {
		return out, nil // so many providers that nothing is suggested
	}
	d, err := set.Decide(all)
	if err != nil || d.WouldAllow.Empty() {
		return out, nil
	}
	all.Scopes = d.WouldAllow
	if d, err = set.Decide(all); err == nil && d.Effect == policy.Allow {
		out.Granted, out.GrantedTTL = d.Scopes, d.TTL
	}
	return out, nil
}

// everythingAt are all scopes of these providers.
func everythingAt(providers []string) (scopes.Set, error) {
	var all []scopes.Scope
	for _, name := range providers {
		s, err := scopes.New(name, scopes.Rest, scopes.Any)
		if err != nil {
			return scopes.Set{}, err
		}
		all = append(all, s)
	}
	return scopes.NewSet(all...)
}

// OpenProviders are those of which these policies grant everything to the worst of
// askers, with no question: a sandbox that nothing is known of, in a task that has read what
// strangers wrote and was caught, for what cannot be taken back, whether it is handed out
// or goes by egress.
func (b *Broker) OpenProviders(set *policy.Set) (open []string) {
	for _, name := range slices.Sorted(maps.Keys(b.cfg.Providers)) {
		all, err := everythingAt([]string{name})
		if err != nil {
			continue
		}
		for _, delivery := range []string{policy.DeliveryToken, policy.DeliveryEgress} {
			d, err := set.Decide(policy.Query{
				Sandbox: policy.Sandbox{ID: "sbx_anybody", Attestor: "nobody"}, Task: policy.Task{ID: "tsk_any", Depth: MaxDelegationDepth}, Scopes: all, TTL: b.cfg.Limits.MaxTTL,
				Binding: policy.BindingDPoP, Delivery: delivery, Record: policy.Record{Denials: 100, Violations: 100}, Revocability: policy.RevocableNever, Taint: []string{MoreTaint},
			})
			if err == nil && d.Effect == policy.Allow {
				open = append(open, name)
				break
			}
		}
	}
	return open
}

// ProviderNames are the providers that scopes can name.
func (b *Broker) ProviderNames() []string { return slices.Sorted(maps.Keys(b.cfg.Providers)) }

// AttestorNames are those who may vouch for a sandbox.
func (b *Broker) AttestorNames() []string { return slices.Sorted(maps.Keys(b.cfg.Attestors)) }
