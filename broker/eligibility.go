package broker

import (
	"slices"

	"github.com/ebb-broker/ebb/scopes"
)

// RoleGroup is a group whose members have a role. For approvers Scopes limits the requests that
// they may decide.
type RoleGroup struct {
	Group  string
	Scopes scopes.Set // empty = no limit
}

// RoleGroups are the groups of an identity provider by the role that they give.
type RoleGroups map[Role][]RoleGroup

// Assign returns p with the roles that its groups give, and their limits.
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
		if free { // a group without a limit lifts the overall limit; Within still limits the other groups
			p.Bounds = nil
		}
	}
	return p
}

// Limited reports whether an approver may decide requests of some scopes only.
func (p Principal) Limited() bool { return len(p.Bounds) > 0 || len(p.Within) > 0 }

// Say returns the groups through which an approver is eligible to decide a request for set. One
// group's limit must cover the whole set: an approval of a part denies the rest, and two groups
// that may each decide one half must not decide the whole.
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

// MayDecide returns why a person is not eligible to decide a request, regardless of its scopes;
// nil means that the person is eligible.
func MayDecide(who Principal, r Request) error {
	switch {
	case !who.Has(RoleApprover):
		return E(Forbidden, "Only an approver decides requests. Ask the operator for the role approver.", nil)
	case !Meet(r.Groups, who.Groups):
		return E(Forbidden, "You are in none of the groups that may decide this request.", nil)
	case !Meet(r.Groups, who.Say(r.Scopes)):
		return E(Forbidden, "The request asks for more than you may decide. Ask an approver who may decide all of its scopes.", nil)
	case who.Named(r.Owner, r.Runner):
		return E(Forbidden, "You cannot decide requests of your own task. Ask another approver.", nil)
	}
	return nil
}

// Meet reports whether two lists of groups have one in common.
func Meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(g string) bool { return slices.Contains(b, g) })
}
