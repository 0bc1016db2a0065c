package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"
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
	Diff  []string `json:"diff"`            // a sentence for each difference
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
			c.Diff = []string{"The draft cannot decide this request: " + c.Error}
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

// Differences returns the differences, a sentence each. Versions, and the ids and texts of policies,
// alone are no difference.
func Differences(was, now Decision) (diff []string) {
	compare := func(format, was, now string) {
		if was != now {
			diff = append(diff, fmt.Sprintf(format, cmp.Or(now, "nothing"), cmp.Or(was, "nothing")))
		}
	}
	if was.Effect != now.Effect {
		would := outcomes[now.Effect].would + now.by()
		if was.Effect == Deny {
			would += ", for at most " + span(now.TTL)
		}
		diff = append(diff, "Would "+would+"; "+outcomes[was.Effect].before+was.by()+" before.")
	} else if was.Effect == Ask {
		compare("Would need approval by %s instead of %s.", was.Ask.needs(), now.Ask.needs())
	}
	if was.Effect != Deny && now.Effect != Deny {
		compare("Would cover %s instead of %s.", was.Scopes.String(), now.Scopes.String())
		compare("Would last at most %s instead of %s.", span(was.TTL), span(now.TTL))
		compare("Could spend at most %s instead of %s.", cmp.Or(was.MaxAmount.String(), "any amount"), cmp.Or(now.MaxAmount.String(), "any amount"))
		if was.Deliver != now.Deliver {
			diff = append(diff, delivered[now.Deliver])
		}
	}
	if was.Effect == now.Effect || was.Effect != Allow && now.Effect != Allow {
		compare("Of this request, %s would be allowed without approval instead of %s.", was.WouldAllow.String(), now.WouldAllow.String())
	}
	if was.Effect == now.Effect {
		compare("Would be denied because of %s instead of %s.", was.Denied.String(), now.Denied.String())
	}
	return diff
}

// delivered describes a change of the delivery, by the new delivery.
var delivered = map[string]string{
	DeliveryEgress: "The credential would stay in ebb instead of going to the sandbox.", DeliveryToken: "The credential would go to the sandbox instead of staying in ebb.",
}

// outcomes are the predicates of each effect: if the draft has it, if the policies in force have it,
// and if both do.
var outcomes = map[Effect]struct{ would, before, still string }{
	Allow: {"be allowed without approval", "was allowed without approval", "still allowed without approval"},
	Ask:   {"need approval", "needed approval", "still needs approval"},
	Deny:  {"be denied", "was denied", "still denied"},
}

// Move describes the change of an effect that a draft makes, without the details.
func Move(was, now Effect) string {
	if was == now {
		return outcomes[now].still + ", with other details"
	}
	return "would " + outcomes[now].would + "; " + outcomes[was].before + " before"
}

// by returns the approvers of a decision that needs an approval.
func (d Decision) by() string {
	if d.Effect != Ask {
		return ""
	}
	return " by " + d.Ask.needs()
}

// span returns a lifetime in minutes or seconds.
func span(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// needs returns the required approvers without the ids of the policies.
func (a *Approval) needs() string {
	if a == nil {
		return ""
	}
	parts := make([]string, len(a.Rules))
	for i, r := range a.Rules {
		people := "people"
		if r.Quorum == 1 {
			people = "person"
		}
		parts[i] = fmt.Sprintf("%d %s in %s", r.Quorum, people, strings.Join(r.Groups, ", "))
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
		was.MaxAmount.And(now.MaxAmount).String() != now.MaxAmount.String() ||
		was.Deliver == DeliveryEgress && now.Deliver == DeliveryToken ||
		now.Effect == Ask && was.Ask.needs() != now.Ask.needs() ||
		!was.WouldAllow.Covers(now.WouldAllow)
}
