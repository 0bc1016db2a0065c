package oidc

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"ebb/attest"
)

var _ attest.Registrar = (*Attestor)(nil)

// CheckRegistration implements attest.Registrar for presets: what is registered
// must hold a set of selectors that together name one sandbox, as far as the
// platform's tokens can. What the configuration requires to have one value counts
// as registered. Of an issuer without a preset nothing is known.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	if len(a.cfg.unique) == 0 {
		return nil
	}
	var sets []string
	for _, set := range a.cfg.unique {
		if !slices.ContainsFunc(set, func(name string) bool { return !a.tells(name, selectors[name]) }) {
			return nil
		}
		sets = append(sets, strings.Join(set, " with "))
	}
	if len(a.cfg.shared) > 0 {
		return errors.New("register " + strings.Join(sets, ", or ") + ", with a value that is of one sandbox and not shared by several")
	}
	return errors.New("register " + strings.Join(sets, ", or "))
}

// tells says that a selector has one value, by registration or because the
// configuration leaves it no other, and that the value is not one that many share.
func (a *Attestor) tells(selector, value string) bool {
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
