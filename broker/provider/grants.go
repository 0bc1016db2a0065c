package provider

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"ebb/scopes"
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
