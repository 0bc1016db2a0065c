package policy

import (
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/scopes"
)

// maxCandidates limits the work for the denied patterns of one query.
const maxCandidates = 32

// smaller returns the part of the request that plain permits grant: the allowed scopes, and for the
// other patterns the narrower scopes that the policies name. Each of them is evaluated like a
// requested scope, so a request for the result would be allowed.
func (s *Set) smaller(r *request, verdicts []verdict) (scopes.Set, error) {
	var granted []scopes.Scope
	left := maxCandidates
	for _, v := range verdicts {
		if v.effect == Allow {
			granted = append(granted, v.scope)
			continue
		}
		if !v.scope.IsPattern() {
			continue
		}
		candidates := s.candidates(v.scope, left)
		left -= len(candidates)
		for _, candidate := range candidates {
			r.aim(candidate)
			found, err := s.judge(r)
			if err != nil {
				return scopes.Set{}, err
			}
			if found.effect == Allow {
				granted = append(granted, candidate)
			}
		}
	}
	set, err := scopes.NewSet(granted...)
	if err != nil {
		// More suggestions than a request may contain: keep the requested scopes and drop the
		// suggestions.
		return scopes.NewSet(slices.DeleteFunc(granted, func(g scopes.Scope) bool {
			return !slices.ContainsFunc(verdicts, func(v verdict) bool { return v.scope == g })
		})...)
	}
	return set, nil
}

// candidates returns the meets of a pattern with the names in plain permits: their resources, the
// paths below them, and for any action, their actions. It returns at most most of them.
func (s *Set) candidates(pattern scopes.Scope, most int) []scopes.Scope {
	if s == nil || most == 0 {
		return nil
	}
	paths := []string{pattern.Resource()}
	actions := []string{pattern.Action()}
	for _, r := range s.rules {
		if r.forbid || r.ask != nil {
			continue
		}
		for _, t := range r.resources {
			if t.provider == pattern.Provider() && t.path != nil {
				path := strings.Join(t.path, "/")
				paths = append(paths, path, path+"/"+scopes.Rest)
			}
		}
		if pattern.Action() == scopes.Any {
			actions = append(actions, r.actions...)
		}
	}
	asked, err := scopes.NewSet(pattern)
	if err != nil {
		return nil
	}
	var found []scopes.Scope
	for _, path := range distinct(paths) {
		for _, action := range distinct(actions) {
			wish, err := scopes.New(pattern.Provider(), path, action)
			if err != nil {
				continue // a path with nothing below it: 16 segments already
			}
			one, err := scopes.NewSet(wish)
			if err != nil || len(found) == most {
				return found
			}
			found = append(found, asked.Narrow(one).Scopes()...)
		}
	}
	return found
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
