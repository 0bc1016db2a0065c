package risk

import (
	"cmp"
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

// Reach returns the meaning of the wildcard at the end of the target in words, or "". So an approver
// need not know that ** means everything.
func (t Title) Reach() string {
	_, kind := t.reach()
	return kind
}

// Name returns the target without the wildcard that Reach describes; "" if nothing else is left.
func (t Title) Name() string {
	name, _ := t.reach()
	return name
}

func (t Title) reach() (name, kind string) {
	for _, w := range []struct{ suffix, under string }{{"**", "everything under"}, {"*", "everything in"}} {
		if t.Target == w.suffix {
			return "", "everything"
		}
		if name, is := strings.CutSuffix(t.Target, "/"+w.suffix); is && !strings.Contains(name, "*") {
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

// TitleOf names the effect of a set of scopes. All actions come before single ones, actions that
// change something before reading, and patterns before names. Harmless scopes in the request
// therefore cannot hide a harmful one.
func TitleOf(set scopes.Set, provider string) Title {
	var reads, does, targets []string
	all := slices.Clone(set.Scopes())
	slices.SortStableFunc(all, func(a, b scopes.Scope) int { return cmp.Compare(harm(b), harm(a)) })
	for _, s := range all {
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
	words := append(does, reads...)
	if len(words) == 0 {
		return Title{Verb: "Nothing", Target: "nothing", Provider: provider}
	}
	for i := range words[1:] {
		words[i+1] = strings.ToLower(words[i+1])
	}
	// An approver reads the title in seconds. From the third word for one name on, the title gives
	// a count; the rows below it list all.
	verb := words[0]
	switch n := len(words) - 1; {
	case anything:
		verb = verbs[scopes.Any]
	case n == 1 && len(targets) == 1:
		verb += " and " + words[1]
	case n > 0:
		verb += fmt.Sprintf(" (+%d)", n)
	}
	return Title{Verb: verb, Target: targets[0], More: len(targets) - 1, Provider: provider}
}

// harm ranks a scope for a title: a change counts more than a pattern, and a pattern more than a name.
func harm(s scopes.Scope) (n int) {
	switch {
	case s.Action() == scopes.Any:
		n = 4
	case !reading[s.Action()]:
		n = 2
	}
	if strings.Contains(s.Resource(), "*") {
		n++
	}
	return n
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
