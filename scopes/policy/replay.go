package policy

import (
	"fmt"
	"strings"
)

// Recorded is a past query and its decision, from the audit log.
type Recorded struct {
	Query    Query    `json:"query"`
	Decision Decision `json:"decision"`
}

// Change is a recorded query that the draft decides differently.
type Change struct {
	Index int      `json:"index"` // into the recorded queries
	Query Query    `json:"query"`
	Was   Decision `json:"was"`
	Now   Decision `json:"now"`
	Error string   `json:"error,omitempty"` // the draft cannot decide it; Now denies
	Wider bool     `json:"wider"`           // the draft grants more, for longer, more directly, or with fewer approvers
	Diff  []string `json:"diff"`            // one line for each difference
}

// Replay returns the recorded queries that the draft decides differently: the dry run of a policy
// change. Versions, and the ids and texts of policies, alone are no change.
func Replay(draft *Set, recorded []Recorded) []Change {
	var changes []Change
	for i, past := range recorded {
		now, err := draft.Decide(past.Query)
		c := Change{Index: i, Query: past.Query, Was: past.Decision, Now: now}
		if err != nil {
			c.Error = err.Error()
			c.Diff = []string{"the draft cannot judge it: " + c.Error}
		} else {
			c.Diff = Differences(past.Decision, now)
			c.Wider = Wider(past.Decision, now)
		}
		if len(c.Diff) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

// Differences returns the differences, one line each. Versions, and the ids and texts of policies,
// alone are no difference.
func Differences(was, now Decision) (diff []string) {
	compare := func(what, was, now string) {
		if was != now {
			diff = append(diff, fmt.Sprintf("%s: %s -> %s", what, orNone(was), orNone(now)))
		}
	}
	compare("effect", was.Effect.String(), now.Effect.String())
	compare("scopes", was.Scopes.String(), now.Scopes.String())
	compare("ttl", was.TTL.String(), now.TTL.String())
	compare("ask", was.Ask.needs(), now.Ask.needs())
	compare("deliver", was.Deliver, now.Deliver)
	compare("would_allow", was.WouldAllow.String(), now.WouldAllow.String())
	compare("denied", was.Denied.String(), now.Denied.String())
	return diff
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// needs returns the required approvers without the ids of the policies.
func (a *Approval) needs() string {
	if a == nil {
		return ""
	}
	parts := make([]string, len(a.Rules))
	for i, r := range a.Rules {
		parts[i] = fmt.Sprintf("%d of %s", r.Quorum, strings.Join(r.Groups, ", "))
	}
	return strings.Join(distinct(parts), " and ")
}

// Wider reports whether now grants more than was, for longer, more directly, or with other or fewer
// approvers. In doubt it returns true, because reviewers of a draft read these changes first.
func Wider(was, now Decision) bool {
	if was.Effect != now.Effect {
		return now.Effect > was.Effect
	}
	return !was.Scopes.Covers(now.Scopes) ||
		now.TTL > was.TTL ||
		was.Deliver == DeliveryEgress && now.Deliver == DeliveryToken ||
		now.Effect == Ask && was.Ask.needs() != now.Ask.needs() ||
		!was.WouldAllow.Covers(now.WouldAllow)
}
