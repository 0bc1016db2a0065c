package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/scopes"
)

// Effect is the answer to a query. The zero Effect is Deny; they are ordered from refusing to granting.
type Effect uint8

// The effects.
const (
	Deny  Effect = iota
	Ask          // granted once people agree
	Allow        // granted at once
)

func (e Effect) String() string {
	switch e {
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return "deny"
}

// MarshalText is "deny", "ask" or "allow".
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText accepts exactly what MarshalText writes.
func (e *Effect) UnmarshalText(b []byte) error {
	for _, known := range []Effect{Deny, Ask, Allow} {
		if known.String() == string(b) {
			*e = known
			return nil
		}
	}
	return fmt.Errorf("policy: effect %.16q is none of deny, ask, allow", b)
}

// Decision is the answer to one query. The zero Decision denies. Its JSON form is stable: see wire.go.
type Decision struct {
	Effect  Effect
	Scopes  scopes.Set    // what is granted, or what people are asked for: all that was asked, or nothing
	TTL     time.Duration // whole seconds, at most what was asked; 0 on Deny
	Ask     *Approval     // only on Ask
	Deliver string        // how to hand it over: as asked, or "egress" when policy insists; "" on Deny
	Rules   []string      // ids of the policies that decided, sorted; empty when nothing matched
	Why     []string      // for people: the @why of those policies, or what no policy permits

	WouldAllow scopes.Set // the part that plain permits grant by themselves; of a pattern, possibly a narrower one
	Denied     scopes.Set // the asked scopes that are forbidden or that nothing permits
	Version    string     // of the policy Set
}

// Approval is who must agree. Groups and Quorum sum it up for routing and display; [Approval.Satisfied] is the judge,
// because members of one rule's group must not stand in for another's.
type Approval struct {
	Groups []string  `json:"groups"` // everyone who has a say: the union over Rules, sorted
	Quorum int       `json:"quorum"` // at least this many different people
	Rules  []AskRule `json:"rules"`  // each must be satisfied; sorted by ID
}

// AskRule is what one policy asks for: Quorum different people who are each in at least one of Groups.
type AskRule struct {
	ID     string   `json:"id"`
	Groups []string `json:"groups"`
	Quorum int      `json:"quorum"`
}

// Approver is one person who agreed, and the groups that person is in.
type Approver struct {
	Name   string
	Groups []string
}

// Satisfied reports whether these people may grant it together. Names count once. No rules is never satisfied.
func (a *Approval) Satisfied(by []Approver) bool {
	if a == nil || len(a.Rules) == 0 {
		return false
	}
	for _, rule := range a.Rules {
		names := map[string]bool{}
		for _, person := range by {
			if person.Name != "" && shares(rule.Groups, person.Groups) {
				names[person.Name] = true
			}
		}
		if len(names) < max(1, rule.Quorum) {
			return false
		}
	}
	return true
}

// Raised is a, agreed to by at least n different people of its groups: id names the rule that wants them. What wants as
// many already stays as it is.
func (a Approval) Raised(id string, n int) Approval {
	if n <= 1 || slices.ContainsFunc(a.Rules, func(r AskRule) bool { return r.Quorum >= n }) {
		return a
	}
	a.Quorum = max(a.Quorum, n)
	a.Rules = append(slices.Clone(a.Rules), AskRule{ID: id, Groups: slices.Clone(a.Groups), Quorum: n})
	slices.SortFunc(a.Rules, func(x, y AskRule) int { return strings.Compare(x.ID, y.ID) })
	return a
}

func shares(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}
