package policyadmin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// PolicyAnswer is one set's answer to a query.
type PolicyAnswer struct {
	policy.Explanation
	// Granted is the largest scope at the query's providers that the set allows the same caller
	// without approval, as far as its policies name it; GrantedTTL is its lifetime.
	Granted    scopes.Set
	GrantedTTL time.Duration
}

// PolicyTrial is the answer of the set in force to a query, and next to it a draft's answer.
type PolicyTrial struct {
	Query    policy.Query
	Live     PolicyAnswer
	Draft    *PolicyAnswer // nil = no draft was named
	Diff     []string      // differences of the draft's decision, one line each
	Wider    bool          // the draft allows more
	Narrower bool          // the draft allows less, and nothing more
}

// TryPolicies evaluates a query without an effect. A caller that names a draft must be allowed
// to see it.
func (pa *Drafts) TryPolicies(ctx context.Context, who broker.Principal, q policy.Query, draft string) (PolicyTrial, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleOperator, broker.RoleAuditor, broker.RoleApprover); err != nil {
		return PolicyTrial{}, err
	}
	pa.Complete(&q)
	out := PolicyTrial{Query: q}
	var err error
	if out.Live, err = answer(pa.policy.Current(), q, pa.limits.MaxTTL); err != nil || draft == "" {
		return out, err
	}
	d, err := pa.PolicyDraft(ctx, who, draft)
	if err != nil {
		return out, err
	}
	set, err := policyset.Load(d.Files)
	if err != nil {
		return out, broker.E(broker.Conflict, "This version of ebb cannot read the draft. Its author must save it again.", err)
	}
	a, err := answer(set, q, pa.limits.MaxTTL)
	if err != nil {
		return out, err
	}
	out.Draft, out.Diff = &a, policy.Differences(out.Live.Decision, a.Decision)
	out.Wider = policy.Wider(out.Live.Decision, a.Decision)
	out.Narrower = !out.Wider && policy.Wider(a.Decision, out.Live.Decision)
	return out, nil
}

// Complete fills in the delivery and the revocability of a query that does not name them, as
// they would be for its scopes.
func (pa *Drafts) Complete(q *policy.Query) {
	p, one := pa.providers[strings.Join(q.Scopes.Providers(), " ")]
	if q.Delivery == "" && one {
		q.Delivery = pa.issuer.Delivery(kernel.MintRequest{Provider: p, Scopes: q.Scopes}, "")
	}
	q.Delivery = cmp.Or(q.Delivery, policy.DeliveryToken)
	if one {
		q.CouldStay = q.CouldStay || pa.issuer.CouldStay(p, q.Scopes, q.Delivery)
	}
	if q.Revocability != "" {
		return
	}
	r := provider.Revocability{Class: provider.ClassInstant}
	for _, name := range q.Scopes.Providers() {
		p, known := pa.providers[name]
		if !known {
			r = provider.Revocability{Class: provider.ClassTTLOnly}
			break
		}
		r = thirdparty.Weaker(r, kernel.Promised(p))
	}
	q.Revocability, q.Bound = string(r.Class), r.Bound
}

func answer(set *policy.Set, q policy.Query, longest time.Duration) (PolicyAnswer, error) {
	x, err := set.Explain(q)
	if err != nil {
		return PolicyAnswer{}, broker.E(broker.Invalid, "The query cannot be evaluated: it lacks a member, or the policy language does not support it.", err)
	}
	out := PolicyAnswer{Explanation: x}
	all := q
	all.TTL = longest
	if all.Scopes, err = everythingAt(q.Scopes.Providers()); err != nil {
		return out, nil // too many providers for a suggestion
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

// everythingAt returns all scopes of these providers.
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

// OpenProviders returns the providers to which these policies give every scope without
// approval, even to the least trusted caller: an unknown sandbox, in a tainted task with
// denials and violations, for an irrevocable credential, delivered as a token or by egress.
func (pa *Drafts) OpenProviders(set *policy.Set) (open []string) {
	for _, name := range slices.Sorted(maps.Keys(pa.providers)) {
		all, err := everythingAt([]string{name})
		if err != nil {
			continue
		}
		for _, delivery := range []string{policy.DeliveryToken, policy.DeliveryEgress} {
			d, err := set.Decide(policy.Query{
				Sandbox: policy.Sandbox{ID: "sbx_anybody", Attestor: "nobody"}, Task: policy.Task{ID: "tsk_any", Depth: broker.MaxDelegationDepth}, Scopes: all, TTL: pa.limits.MaxTTL,
				Binding: policy.BindingDPoP, Delivery: delivery, Record: policy.Record{Denials: 100, Violations: 100}, Revocability: policy.RevocableNever, Taint: []string{broker.MoreTaint},
			})
			if err == nil && d.Effect == policy.Allow {
				open = append(open, name)
				break
			}
		}
	}
	return open
}

// ProviderNames returns the names of the configured providers.
func (pa *Drafts) ProviderNames() []string { return slices.Sorted(maps.Keys(pa.providers)) }

// AttestorNames returns the names of the configured attestors.
func (pa *Drafts) AttestorNames() []string { return slices.Sorted(maps.Keys(pa.attestors)) }
