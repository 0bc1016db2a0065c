package replay

import (
	"slices"
	"strings"

	"ebb/scopes/policy"
)

// Change is a decision that the draft would have made differently.
type Change struct {
	Decision
	Now   policy.Decision `json:"now"`
	Wider bool            `json:"wider"` // the draft grants more: look at these first
	Diff  []string        `json:"diff"`  // one line per difference
}

// Against lets the draft decide again.
func Against(draft *policy.Set, decisions []Decision) []Change {
	recorded := make([]policy.Recorded, len(decisions))
	for i, d := range decisions {
		recorded[i] = d.Recorded
	}
	var out []Change
	for _, c := range policy.Replay(draft, recorded) {
		diff := c.Diff
		if c.Was.Effect == policy.Deny && c.Now.Effect == policy.Deny {
			// The record of a denial does not say what would have been allowed.
			diff = slices.DeleteFunc(slices.Clone(diff), func(line string) bool { return strings.HasPrefix(line, "would_allow:") })
		}
		if len(diff) > 0 {
			out = append(out, Change{Decision: decisions[c.Index], Now: c.Now, Wider: c.Wider, Diff: diff})
		}
	}
	return out
}
