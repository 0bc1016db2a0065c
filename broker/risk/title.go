package risk

import (
	"fmt"
	"slices"
	"strings"

	"ebb/scopes"
)

// Title is one verb and one target, of the broker's words and names.
type Title struct {
	Verb     string `json:"verb"`
	Target   string `json:"target"`         // a resource
	More     int    `json:"more,omitempty"` // other resources
	Provider string `json:"provider"`
}

// String is the title in one line.
func (t Title) String() string {
	out := t.Verb + " " + t.Target
	if t.More > 0 {
		out += fmt.Sprintf(" (+%d)", t.More)
	}
	return out + " at " + t.Provider
}

var verbs = map[string]string{"write": "Write to", scopes.Any: "Do anything with", "login": "Log in to"}

// TitleOf names what a set of scopes permits: what is worse than reading comes first.
func TitleOf(set scopes.Set, provider string) Title {
	var reads, does, targets []string
	for _, s := range set.Scopes() {
		if !slices.Contains(targets, s.Resource()) {
			targets = append(targets, s.Resource())
		}
		into := &does
		if reading[s.Action()] {
			into = &reads
		}
		if verb := verbOf(s.Action()); !slices.Contains(*into, verb) {
			*into = append(*into, verb)
		}
	}
	anything := slices.Contains(does, verbs[scopes.Any])
	all := append(does, reads...)
	if len(all) == 0 {
		return Title{Verb: "Nothing", Target: "nothing", Provider: provider}
	}
	for i := range all[1:] {
		all[i+1] = strings.ToLower(all[i+1])
	}
	// A title is read in seconds: beyond two words for one name it counts, and the rows
	// below it have all of it.
	verb := all[0]
	switch n := len(all) - 1; {
	case anything:
		verb = verbs[scopes.Any]
	case n == 1 && len(targets) == 1:
		verb += " and " + all[1]
	case n > 0:
		verb += fmt.Sprintf(" (+%d)", n)
	}
	return Title{Verb: verb, Target: targets[0], More: len(targets) - 1, Provider: provider}
}

// reading are the actions that change nothing, in the words of the built-in policy.
var reading = map[string]bool{"read": true, "list": true, "get": true}

func verbOf(action string) string {
	if v := verbs[action]; v != "" {
		return v
	}
	return strings.ToUpper(action[:1]) + action[1:]
}
