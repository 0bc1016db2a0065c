package oidc

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest"
)

var _ attest.Registrar = (*Attestor)(nil)

// CheckRegistration implements attest.Registrar for presets. The registration must
// contain one of the preset's sets of selectors that identify one sandbox. A selector
// whose claim the configuration restricts to one value counts as registered. Without a
// preset every registration passes, because ebb does not know the issuer's claims.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	if len(a.cfg.unique) == 0 {
		return nil
	}
	var sets []string
	for _, set := range a.cfg.unique {
		if !slices.ContainsFunc(set, func(name string) bool { return !a.distinguishes(name, selectors[name]) }) {
			return nil
		}
		sets = append(sets, strings.Join(set, " with "))
	}
	if len(a.cfg.shared) > 0 {
		return errors.New("register " + strings.Join(sets, ", or ") + ", with a value that several sandboxes do not share")
	}
	return errors.New("register " + strings.Join(sets, ", or "))
}

// distinguishes reports whether a selector has exactly one value, from the registration
// or because the configuration accepts only one, that several sandboxes do not share.
func (a *Attestor) distinguishes(selector, value string) bool {
	path := a.cfg.Selectors[selector]
	if selector == "sub" {
		path = a.cfg.Subject
	}
	if fixed := a.cfg.Required[path]; value == "" && len(fixed) == 1 {
		value = fixed[0]
	}
	of := a.cfg.shared[selector]
	return value != "" && (of == nil || !of.MatchString(value))
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	names := append([]string{"sub"}, slices.Sorted(maps.Keys(a.cfg.Selectors))...)
	if a.cfg.shape != "" {
		for segment := range strings.SplitSeq(string(a.cfg.shape), "/") {
			if name, named := strings.CutPrefix(segment, "<"); named {
				names = append(names, strings.TrimSuffix(name, ">"))
			}
		}
	}
	return slices.Compact(names)
}
