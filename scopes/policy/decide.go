package policy

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// Decide evaluates the query. It evaluates every requested scope alone: one denied scope denies
// all, and one scope that needs approval makes the result Ask. The error wraps [ErrQuery] for a
// faulty query, or [ErrEvaluation] if a policy failed; the Decision is then the zero one, which
// denies. A set without policies is no error: it denies.
func (s *Set) Decide(q Query) (Decision, error) {
	if err := q.check(); err != nil {
		return Decision{}, err
	}
	r := newRequest(q)
	asked := q.Scopes.Scopes()
	verdicts := make([]verdict, len(asked))
	for i, scope := range asked {
		r.aim(scope)
		v, err := s.judge(r)
		if err != nil {
			return Decision{}, fmt.Errorf("scope %s: %w", scope, err)
		}
		v.scope = scope
		verdicts[i] = v
	}
	d, err := conclude(q, verdicts)
	if err != nil {
		return Decision{}, err
	}
	d.Version = s.Version()
	if d.WouldAllow, err = s.smaller(r, verdicts); err != nil {
		return Decision{}, err
	}
	return d, nil
}

// verdict is the result for one scope.
type verdict struct {
	scope  scopes.Scope
	effect Effect
	rules  []*rule // the rules that determine it: forbids, plain permits, or permits with @ask; none when no rule applied
}

// judge evaluates all policies on the current scope of the request.
func (s *Set) judge(r *request) (verdict, error) {
	if s == nil {
		return verdict{}, nil
	}
	var near ruleList
	for _, rule := range s.rules {
		if r.reaches(rule) {
			near = append(near, rule)
		}
	}
	match := near.matchConcrete
	if r.isPattern {
		match = near.matchPattern
	}
	matched, err := match(r)
	if err != nil {
		return verdict{}, err
	}
	var forbids, plain, asking []*rule
	for _, m := range matched {
		switch {
		case m.forbid:
			forbids = append(forbids, m)
		case m.ask == nil:
			plain = append(plain, m)
		default:
			asking = append(asking, m)
		}
	}
	switch {
	case len(forbids) > 0:
		return verdict{effect: Deny, rules: forbids}, nil
	case len(plain) > 0:
		return verdict{effect: Allow, rules: plain}, nil
	case len(asking) > 0:
		return verdict{effect: Ask, rules: asking}, nil
	}
	return verdict{effect: Deny}, nil
}

// ruleList is a cedar.PolicyIterator, sorted by id.
type ruleList []*rule

func (l ruleList) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, r := range l {
			if !yield(cedar.PolicyID(r.id), r.policy) {
				return
			}
		}
	}
}

// matchConcrete evaluates a concrete scope by Cedar. If forbids apply, Cedar names only those.
func (l ruleList) matchConcrete(r *request) (matched []*rule, err error) {
	_, diagnostic := cedar.Authorize(l, r, r.cedar)
	if len(diagnostic.Errors) > 0 {
		e := diagnostic.Errors[0]
		return nil, fmt.Errorf("%w: policy %s: %s", ErrEvaluation, e.PolicyID, e.Message)
	}
	for _, reason := range diagnostic.Reasons {
		i, _ := slices.BinarySearchFunc(l, string(reason.PolicyID), func(r *rule, id string) int { return strings.Compare(r.id, id) })
		matched = append(matched, l[i])
	}
	return matched, nil
}

// matchPattern evaluates every policy on all scopes that the pattern matches: a permit must apply
// to all of them, and a forbid counts unless it applies to none.
func (l ruleList) matchPattern(r *request) (matched []*rule, err error) {
	for _, rule := range l {
		holds, err := r.matches(rule)
		if err != nil {
			return nil, err
		}
		if holds == yes || rule.forbid && holds == maybe {
			matched = append(matched, rule)
		}
	}
	return matched, nil
}

// matches returns the conjunction of a policy's clauses.
func (r *request) matches(rule *rule) (tri, error) {
	result := yes
	for _, c := range rule.clauses {
		t, err := r.holds(c.cond)
		if err != nil {
			return no, fmt.Errorf("policy %s, %s: %w", rule.id, c.name, err)
		}
		if t == no {
			return no, nil
		}
		result = min(result, t)
	}
	return result, nil
}

// conclude combines the verdicts into one decision.
func conclude(q Query, verdicts []verdict) (Decision, error) {
	d := Decision{Effect: Allow, Scopes: q.Scopes, TTL: q.TTL.Truncate(time.Second), Deliver: q.Delivery}
	var denied []scopes.Scope
	for _, v := range verdicts {
		d.Effect = min(d.Effect, v.effect)
		if v.effect == Deny {
			denied = append(denied, v.scope)
		}
	}
	for _, v := range verdicts {
		// Policies that grant the other scopes do not explain a denial.
		if d.Effect == Deny && v.effect != Deny {
			continue
		}
		d.explain(v)
		if v.effect == Deny {
			continue
		}
		if ttl := longest(v.rules); ttl > 0 {
			d.TTL = min(d.TTL, ttl)
		}
		d.MaxAmount = d.MaxAmount.And(most(v.rules))
		// Only egress can sum up amounts.
		if d.MaxAmount != nil || !slices.ContainsFunc(v.rules, func(r *rule) bool { return !r.egress }) {
			d.Deliver = DeliveryEgress
		}
		if v.effect == Ask {
			d.Ask = d.Ask.with(v.rules)
		}
	}
	slices.Sort(d.Rules)
	d.Rules = slices.Compact(d.Rules)
	if d.Effect == Deny {
		d.Scopes, d.TTL, d.MaxAmount, d.Deliver = scopes.Set{}, 0, nil, ""
	}
	var err error
	d.Denied, err = scopes.NewSet(denied...)
	return d, err
}

func (d *Decision) explain(v verdict) {
	add := func(why string) {
		if why != "" && !slices.Contains(d.Why, why) {
			d.Why = append(d.Why, why)
		}
	}
	for _, r := range v.rules {
		d.Rules = append(d.Rules, r.id)
		add(r.why)
	}
	if len(v.rules) == 0 {
		add("no policy permits " + v.scope.String())
	}
}

// longest returns the longest @max_ttl of permits of which each suffices; 0 if one of them has
// none.
func longest(rules []*rule) (ttl time.Duration) {
	for _, r := range rules {
		if r.maxTTL == 0 {
			return 0
		}
		ttl = max(ttl, r.maxTTL)
	}
	return ttl
}

// most returns the highest @max_amount of permits, for each unit: each of them suffices. nil if one of
// them has none.
func most(rules []*rule) amount.Limits {
	limits := rules[0].maxAmount
	for _, r := range rules[1:] {
		limits = limits.Or(r.maxAmount)
	}
	return limits
}

// with adds the approvals that the rules require. All of them are required, also when several rules
// permit the same scope: a policy that requires a second group must not become void because a more
// general one requires another.
func (a *Approval) with(rules []*rule) *Approval {
	if a == nil {
		a = &Approval{}
	}
	for _, r := range rules {
		if slices.ContainsFunc(a.Rules, func(known AskRule) bool { return known.ID == r.id }) {
			continue
		}
		a.Rules = append(a.Rules, AskRule{ID: r.id, Groups: slices.Clone(r.ask), Quorum: r.quorum})
		a.Groups = append(a.Groups, r.ask...)
		a.Quorum = max(a.Quorum, r.quorum)
	}
	slices.SortFunc(a.Rules, func(x, y AskRule) int { return strings.Compare(x.ID, y.ID) })
	slices.Sort(a.Groups)
	a.Groups = slices.Compact(a.Groups)
	return a
}
