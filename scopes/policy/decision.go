package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// Effect is the answer to a query. The zero Effect is Deny; the order is from denying to granting.
type Effect uint8

// The effects.
const (
	Deny  Effect = iota
	Ask          // granted after approval
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

// MarshalText returns "deny", "ask" or "allow".
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText accepts exactly the texts of MarshalText.
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
	Effect Effect
	Scopes scopes.Set    // the granted scopes, or those that need approval: all requested ones, or none
	TTL    time.Duration // whole seconds, at most the requested time; 0 on Deny
	Ask    *Approval     // only on Ask
	// MaxAmount is what the task may spend at the provider through the credential, with what it has
	// spent there before; nil = no limit.
	MaxAmount amount.Limits
	Deliver   string   // delivery: as requested, or "egress" if policy requires it; "" on Deny
	Rules     []string // ids of the policies that decided, sorted; empty when none applied
	Why       []string // for people: the @why of those policies, or the scopes that no policy permits

	WouldAllow scopes.Set // the part that plain permits grant; for a pattern, possibly a narrower one
	Denied     scopes.Set // the requested scopes that are forbidden or not permitted
	Version    string     // of the policy Set
}

// Approval describes the required approvals. Groups and Quorum summarize them for routing and
// display; [Approval.Satisfied] decides, because members of one rule's group must not approve for
// another's.
type Approval struct {
	Groups []string  `json:"groups"` // the union over Rules, sorted
	Quorum int       `json:"quorum"` // the least number of different approvers
	Rules  []AskRule `json:"rules"`  // each must be satisfied; sorted by ID
}

// AskRule is the requirement of one policy: Quorum different people, each in at least one of
// Groups.
type AskRule struct {
	ID     string   `json:"id"`
	Groups []string `json:"groups"`
	Quorum int      `json:"quorum"`
}

// Approver is one person who approved, with their groups.
type Approver struct {
	Name   string
	Groups []string
}

// Satisfied reports whether these approvers suffice. Each name counts once. Without rules the
// result is false.
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

// Raised returns a with a further rule, id, that requires at least n different people of its
// groups. If one of its rules requires as many, a is returned unchanged.
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
