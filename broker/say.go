package broker

import (
	"slices"
	"strings"

	"ebb/scopes"
)

// RoleGroup is a group whose members have a role; as approvers, over what Scopes cover.
type RoleGroup struct {
	Group  string
	Scopes scopes.Set // empty = whatever is asked
}

// RoleGroups are the groups of an identity provider, by what their members may do.
type RoleGroups map[Role][]RoleGroup

// Assign is p with the roles that its groups give, and their limits.
func (m RoleGroups) Assign(p Principal) Principal {
	p.Roles, p.Bounds, p.Within = nil, nil, nil
	for _, role := range []Role{RoleViewer, RoleApprover, RoleAuditor, RoleOperator} {
		mine := slices.DeleteFunc(slices.Clone(m[role]), func(g RoleGroup) bool { return !slices.Contains(p.Groups, g.Group) })
		if len(mine) == 0 {
			continue
		}
		p.Roles = append(p.Roles, role)
		if role != RoleApprover {
			continue
		}
		free := false
		for _, g := range mine {
			if g.Scopes.Empty() {
				free = true
				continue
			}
			if p.Within == nil {
				p.Within = map[string]scopes.Set{}
			}
			p.Within[g.Group] = g.Scopes
			p.Bounds = append(p.Bounds, g.Scopes)
		}
		if free { // one group makes it an approver of anything, by the groups that have no limit
			p.Bounds = nil
		}
	}
	return p
}

// Limited reports whether an approver has a say in some scopes only.
func (p Principal) Limited() bool { return len(p.Bounds) > 0 || len(p.Within) > 0 }

// Say are the groups by which an approver has a say in a request for set. All of it must
// be within the limits of one group: a yes to a part is a no to the rest, and two groups
// that each may decide a half may not decide the whole.
func (p Principal) Say(set scopes.Set) []string {
	covered := func(s scopes.Set) bool { return s.Covers(set) }
	if len(p.Bounds) > 0 && !slices.ContainsFunc(p.Bounds, covered) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Groups), func(g string) bool {
		limit, limited := p.Within[g]
		return limited && !limit.Covers(set)
	})
}

// MayDecide is why a person has no say in a request, whatever it asks for; nil = they have.
func MayDecide(who Principal, r Request) error {
	switch {
	case !who.Has(RoleApprover):
		return E(Forbidden, "Only an approver decides requests.", nil)
	case !meet(r.Groups, who.Groups):
		return E(Forbidden, "You are in none of the groups that may decide this request.", nil)
	case !meet(r.Groups, who.Say(r.Scopes)):
		return E(Forbidden, "It asks for more than you may decide. Somebody must decide it who may decide all of it.", nil)
	case who.named(r.Owner, r.Runner):
		return E(Forbidden, "Nobody decides requests of their own task. Ask another approver.", nil)
	}
	return nil
}

// named reports whether one of the names is p's. What a runner wrote is compared without
// its letter case, which makes nobody another person.
func (p Principal) named(names ...string) bool {
	return slices.ContainsFunc(p.names(), func(n string) bool {
		return slices.ContainsFunc(names, func(o string) bool { return strings.EqualFold(n, o) })
	})
}

// names are all names of p.
func (p Principal) names() []string { return append([]string{p.ID}, p.Also...) }

// meet reports whether two lists of groups have one in common.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(g string) bool { return slices.Contains(b, g) })
}
