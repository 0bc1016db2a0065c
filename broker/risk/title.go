package risk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/scopes"
)

// Title is a verb and a target, in words and names of the broker only.
type Title struct {
	Verb     string `json:"verb"`
	Target   string `json:"target"`         // a resource
	More     int    `json:"more,omitempty"` // other resources
	Provider string `json:"provider"`
}

// Reach returns the meaning of the wildcard at the end of the target, and Name the target without
// it. An approver need not know that ** stands for everything.
func (t Title) Reach() string {
	_, kind := t.reach()
	return kind
}

// Name is described at Reach. It is "" for a target that is only a wildcard.
func (t Title) Name() string {
	name, _ := t.reach()
	return name
}

func (t Title) reach() (name, kind string) {
	for _, w := range []struct{ suffix, alone, under string }{{"**", "everything", "everything under"}, {"*", "everything at the top", "everything in"}} {
		if t.Target == w.suffix {
			return "", w.alone
		}
		if name, is := strings.CutSuffix(t.Target, "/"+w.suffix); is {
			return name, w.under
		}
	}
	return t.Target, ""
}

// String returns the title in one line.
func (t Title) String() string {
	out := t.Verb
	for _, part := range []string{t.Reach(), t.Name()} {
		if part != "" {
			out += " " + part
		}
	}
	if t.More > 0 {
		out += fmt.Sprintf(" (+%d)", t.More)
	}
	return out + " at " + t.Provider
}

var verbs = map[string]string{"write": "Write to", scopes.Any: "Do anything with", "login": "Log in to"}

// TitleOf names the effect of a set of scopes. Actions that change something come before reading.
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
	// An approver reads the title in seconds. From the third word for one name on, the title gives
	// a count; the rows below it list all.
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

// reading holds the actions that change nothing, as the built-in policy names them.
var reading = map[string]bool{"read": true, "list": true, "get": true}

func verbOf(action string) string {
	if v := verbs[action]; v != "" {
		return v
	}
	words := strings.FieldsFunc(action, func(r rune) bool { return r == '-' || r == '_' })
	verb := strings.Join(words, " ")
	if verb == "" {
		return action
	}
	verb = strings.ToUpper(verb[:1]) + verb[1:]
	if len(words) > 1 {
		verb += " in" // such as: Close issues in acme/web
	}
	return verb
}
