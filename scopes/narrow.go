package scopes

import "slices"

// Covers reports whether every member of other is covered by one member of s. Every set covers the empty set.
func (s Set) Covers(other Set) bool {
	for _, m := range other.members {
		if !s.CoversScope(m) {
			return false
		}
	}
	return true
}

// CoversScope reports whether one member of s covers the scope.
func (s Set) CoversScope(scope Scope) bool {
	return slices.ContainsFunc(s.members, func(m Scope) bool { return m.Covers(scope) })
}

// Narrow returns the scopes that both sets permit: the pairwise meets of their members. The result
// is always covered by s and by other. It permits less than both in two cases: a meet whose text
// would exceed [MaxBytes] is left out, and when more than [MaxScopes] meets remain, which takes
// dozens of crossing patterns on both sides, the result is empty.
func (s Set) Narrow(other Set) Set {
	var met []Scope
	for _, a := range s.members {
		// The common case, in which one side covers the other, would otherwise compute a product.
		if other.CoversScope(a) {
			met = append(met, a)
			continue
		}
		for _, b := range other.members {
			if m, ok := a.meet(b); ok {
				met = append(met, m)
			}
		}
	}
	kept, ok := canonical(met)
	if !ok {
		return Set{}
	}
	return Set{members: kept}
}

// Merge returns the union of the sets, as when one request carries both `scope` and
// `authorization_details` (RFC 9396 section 3.1). More than [MaxScopes] members is an error.
func Merge(sets ...Set) (Set, error) {
	var all []Scope
	for _, s := range sets {
		all = append(all, s.members...)
	}
	return NewSet(all...)
}
