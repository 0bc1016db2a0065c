package provider

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/scopes"
)

// Grants are the scopes that a provider's configuration names one by one: the
// resource, its actions, and what each stands for at the provider.
type Grants[T any] map[string]map[string]T

var actionForm = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,31}$`)

// ValidAction reports whether a configured action is one that a scope can name.
func ValidAction(text string) bool { return actionForm.MatchString(text) }

// Check says through bad what cannot be part of a scope of the provider of that
// name, and hands every entry to each with its place in the configuration.
func (g Grants[T]) Check(name string, bad func(format string, a ...any), each func(at string, v T)) {
	for _, res := range slices.Sorted(maps.Keys(g)) {
		if s, err := scopes.New(name, res, "x"); err != nil || s.IsPattern() {
			bad("grants: %q cannot be the resource of a scope", res)
		}
		if len(g[res]) == 0 {
			bad("grants.%s: name at least one action", res)
		}
		for _, action := range slices.Sorted(maps.Keys(g[res])) {
			at := fmt.Sprintf("grants.%s.%s", res, action)
			if !ValidAction(action) {
				bad("%s: it is not an action", at)
			}
			each(at, g[res][action])
		}
	}
}

// Of is what a scope stands for. A pattern stands for nothing.
func (g Grants[T]) Of(s scopes.Scope) (v T, known bool) {
	v, known = g[s.Resource()][s.Action()]
	return v, known && !s.IsPattern()
}

// Fitting returns the scopes of the provider of this name that fit, each by itself, in the order of their names.
func (g Grants[T]) Fitting(name string, fit func(scopes.Set) bool) (out []scopes.Scope) {
	for _, res := range slices.Sorted(maps.Keys(g)) {
		for _, action := range slices.Sorted(maps.Keys(g[res])) {
			if s, set, err := alone(name, res, action); err == nil && fit(set) {
				out = append(out, s)
			}
		}
	}
	return out
}

// Enclosing returns scopes for a place, the narrowest first: the place itself, then all that lies below each place above
// it, but for the root. What no scope can name is left out; a segment that reads as a wildcard is such a name.
func Enclosing(name string, segments []string, action string) (out []scopes.Scope) {
	add := func(segments ...string) {
		if s, _, err := alone(name, strings.Join(segments, "/"), action); err == nil {
			out = append(out, s)
		}
	}
	if i := slices.IndexFunc(segments, func(s string) bool { return strings.Contains(s, scopes.Any) }); i >= 0 {
		segments = segments[:i+1]
	} else {
		add(segments...)
	}
	for n := min(len(segments), scopes.MaxSegments) - 1; n > 0; n-- {
		add(append(slices.Clone(segments[:n]), scopes.Rest)...)
	}
	return out
}

// alone is a scope, and the set of it.
func alone(name, resource, action string) (s scopes.Scope, set scopes.Set, err error) {
	if s, err = scopes.New(name, resource, action); err == nil {
		set, err = scopes.NewSet(s)
	}
	return s, set, err
}

// One is what a set of exactly one scope stands for, for providers whose
// credentials are for one. The error wraps ErrUnsupported.
func (g Grants[T]) One(s scopes.Set) (T, error) {
	if s.Len() != 1 {
		return *new(T), fmt.Errorf("%w: a credential is for exactly one scope", ErrUnsupported)
	}
	v, known := g.Of(s.Scopes()[0])
	if !known {
		return *new(T), fmt.Errorf("%w: %s is not configured", ErrUnsupported, s.Scopes()[0])
	}
	return v, nil
}

// Answer is yes, no or unknown. Unknown counts as the worse of the other two.
type Answer string

// Answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Effect is what the holder of a scope can do with it.
type Effect struct {
	Writes     Answer // can it change anything; unknown counts as yes
	Reversible Answer // can what it changes be undone; unknown counts as no
	Sentence   string // says what can be undone: at most 12 words of our own, no names
}

// Describer is implemented by drivers that can say what their scopes allow. People
// cannot approve what no driver describes: every kind of all implements it.
type Describer interface {
	// Describe returns the effect of one scope that Check has accepted. The error wraps
	// ErrUnsupported if the driver does not know the effect.
	Describe(scopes.Scope) (Effect, error)
}

// Reading is the effect of what changes nothing.
func Reading() Effect { return Effect{No, Yes, "It changes nothing; what was read stays read."} }

// reads are the actions that mean reading wherever an operator has not said otherwise;
// ebb's built-in policy knows the same.
var reads = map[string]bool{"read": true, "list": true, "get": true}

// ByAction returns the effect of a scope whose action the operator named: read, list and get only
// read; the effect of any other action is unknown.
func ByAction(s scopes.Scope) Effect {
	if reads[s.Action()] {
		return Reading()
	}
	return Effect{Unknown, Unknown, "ebb does not know whether this can be undone."}
}

// Words are what an operator says of actions, by their names.
type Words struct {
	Reversible   []string // they change what can be undone; counts where the kind does not know
	Irreversible []string // they change what cannot be undone, whatever the kind says
}

// On is e, the effect of s in the kind's own view, with what the operator says of it.
// Only what the kind does not know can become better by that.
func (w Words) On(s scopes.Scope, e Effect) Effect {
	switch {
	case slices.Contains(w.Irreversible, s.Action()):
		return Effect{Yes, No, "This ebb's operator says that it cannot be undone."}
	case e.Reversible == Unknown && slices.Contains(w.Reversible, s.Action()):
		return Effect{Yes, Yes, "This ebb's operator says that it can be undone."}
	}
	return e
}
