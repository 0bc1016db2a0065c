package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/scopes"
)

// Grants are the scopes that a provider's configuration lists: resource, action, and the
// configured value for them.
type Grants[T any] map[string]map[string]T

var actionForm = lazyregexp.New(`^[a-z][a-z0-9_.-]{0,31}$`)

// ValidAction reports whether a scope can have the configured action.
func ValidAction(text string) bool { return actionForm.MatchString(text) }

// Check calls bad for each entry that cannot be part of a scope of the provider of that
// name, and calls each for every entry with its key in the configuration.
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

// Of returns the configured value for a scope. A pattern has none.
func (g Grants[T]) Of(s scopes.Scope) (v T, known bool) {
	v, known = g[s.Resource()][s.Action()]
	return v, known && !s.IsPattern()
}

// Fitting returns those scopes of the provider of this name that fit accepts, each as a set
// of its own, sorted by name.
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

// Enclosing returns the scopes that contain a path, the narrowest first: the path itself,
// then everything below each parent except the root. Paths that no scope can express are
// left out, such as one with a segment that reads as a wildcard.
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

// alone returns a scope and the set that contains only it.
func alone(name, resource, action string) (s scopes.Scope, set scopes.Set, err error) {
	if s, err = scopes.New(name, resource, action); err == nil {
		set, err = scopes.NewSet(s)
	}
	return s, set, err
}

// One returns the configured value for a set of exactly one scope, for providers whose
// credentials are for one scope. The error wraps ErrUnsupported.
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

// Answer is yes, no or unknown. Unknown counts as the less favourable of the other two.
type Answer string

// Answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Effect is what the holder of a scope can do with it.
type Effect struct {
	Writes     Answer // whether the holder can change anything; unknown counts as yes
	Reversible Answer // whether the changes can be undone; unknown counts as no
	Sentence   string // the changes that can be undone, in at most 12 words without names
}

// Describer is implemented by drivers that can describe what their scopes allow. Every kind
// implements it, because people cannot approve a request without a description.
type Describer interface {
	// Describe returns the effect of one scope that Check has accepted. The error wraps
	// ErrUnsupported if the driver does not know the effect.
	Describe(scopes.Scope) (Effect, error)
}

// Reading returns the effect of a scope that changes nothing.
func Reading() Effect { return Effect{No, Yes, "It changes nothing; what was read stays read."} }

// reads are the actions that only read unless an operator has said otherwise. ebb's built-in
// policy has the same list.
var reads = map[string]bool{"read": true, "list": true, "get": true}

// ByAction returns the effect of a scope whose action the operator named: read, list and get only
// read; the effect of any other action is unknown.
func ByAction(s scopes.Scope) Effect {
	if reads[s.Action()] {
		return Reading()
	}
	return Effect{Unknown, Unknown, "ebb does not know whether this can be undone."}
}

// Words are an operator's statements about actions, by their names.
type Words struct {
	Reversible   []string // their changes can be undone; used only where the kind does not know
	Irreversible []string // their changes cannot be undone; overrides the kind
}

// On returns the effect of s: e, which is the kind's own, with the operator's statements
// applied. They can improve only what the kind does not know.
func (w Words) On(s scopes.Scope, e Effect) Effect {
	switch {
	case slices.Contains(w.Irreversible, s.Action()):
		return Effect{Yes, No, "The provider's configuration says so."}
	case e.Reversible == Unknown && slices.Contains(w.Reversible, s.Action()):
		return Effect{Yes, Yes, "The provider's configuration says so."}
	}
	return e
}
