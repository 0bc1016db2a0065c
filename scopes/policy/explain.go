package policy

import (
	"fmt"

	"github.com/ebb-broker/ebb/scopes"
)

// Explanation is a decision with the part of every policy in it.
type Explanation struct {
	Decision Decision           `json:"decision"`
	Scopes   []ScopeExplanation `json:"scopes"` // one for each requested scope, in order
}

// ScopeExplanation is the result for one requested scope.
type ScopeExplanation struct {
	Scope    scopes.Scope `json:"scope"`
	Effect   Effect       `json:"effect"`
	Policies []Verdict    `json:"policies"` // all of them, sorted by ID
}

// Verdict is the result of one policy for one scope.
type Verdict struct {
	ID      string `json:"id"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Effect  string `json:"effect"`  // EffectPermit, EffectAsk or EffectForbid
	Matches string `json:"matches"` // "yes", "no", or "maybe": it applies to a part of the pattern, or that is not known
	Decides bool   `json:"decides"` // it is one of the policies that determine the scope's effect
	Reason  string `json:"reason"`
}

// Explain decides like [Set.Decide] and adds the result of each policy. For a policy that did not
// apply, it names the condition that is not met. Errors are those of Decide.
func (s *Set) Explain(q Query) (Explanation, error) {
	decision, err := s.Decide(q)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Decision: decision}
	r := newRequest(q)
	for _, scope := range q.Scopes.Scopes() {
		r.aim(scope)
		v, err := s.judge(r)
		if err != nil {
			return Explanation{}, err
		}
		part := ScopeExplanation{Scope: scope, Effect: v.effect, Policies: []Verdict{}}
		deciding := map[string]bool{}
		for _, rule := range v.rules {
			deciding[rule.id] = true
		}
		if s != nil {
			for _, rule := range s.rules {
				verdict, err := r.explain(rule, deciding[rule.id])
				if err != nil {
					return Explanation{}, err
				}
				part.Policies = append(part.Policies, verdict)
			}
		}
		e.Scopes = append(e.Scopes, part)
	}
	return e, nil
}

func (r *request) explain(rule *rule, decides bool) (Verdict, error) {
	v := Verdict{ID: rule.id, File: rule.at.file, Line: rule.at.line, Effect: rule.effect(), Decides: decides}
	result, open := yes, ""
	for _, c := range rule.clauses {
		t, err := r.holds(c.cond)
		if err != nil {
			return Verdict{}, fmt.Errorf("policy %s, %s: %w", rule.id, c.name, err)
		}
		if t == no {
			v.Matches, v.Reason = no.String(), fmt.Sprintf("its condition (%s) is not met", c.name)
			return v, nil
		}
		if t == maybe && open == "" {
			result, open = maybe, c.name
		}
	}
	v.Matches = result.String()
	switch {
	case result == maybe && rule.forbid:
		v.Reason = fmt.Sprintf("its condition (%s) may be met for a part of the wildcard, which is enough for a forbid", open)
	case result == maybe:
		v.Reason = fmt.Sprintf("its condition (%s) may be unmet for a part of the wildcard, but a permit must cover all of it", open)
	case decides:
		v.Reason = "all its conditions are met"
	default:
		v.Reason = "all its conditions are met, but a forbid or a permit without @ask decides"
	}
	return v, nil
}
