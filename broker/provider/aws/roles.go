package aws

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// rule is a Role, checked.
type rule struct {
	serves     scopes.Set
	arns       []string
	partition  string // "aws", "aws-cn", "aws-us-gov"
	maxSession time.Duration
}

// roleForm is the ARN of a role (IAM identifiers): partition, account, which RGW
// leaves empty, path and name.
var roleForm = regexp.MustCompile(`^arn:(aws[a-z-]{0,16}):iam::([0-9]{12})?:role/([\x21-\x7e]+/)?([\w+=,.@-]{1,64})$`)

// roleName is the last part of an ARN: what IAM's calls want.
func roleName(arn string) string {
	if m := roleForm.FindStringSubmatch(arn); m != nil {
		return m[4]
	}
	return ""
}

func (c Config) readRoles(ps *problems) []rule {
	var out []rule
	if len(c.Roles) == 0 {
		ps.add("roles: name at least one, with the scopes that it serves")
	}
	for i, r := range c.Roles {
		one := rule{maxSession: span(ps, fmt.Sprintf("roles[%d].max_session", i), r.MaxSession, time.Hour, minSession, maxSession)}
		var serves []scopes.Scope
		for _, text := range r.Scopes {
			s, err := scopes.Parse(text)
			if err != nil {
				ps.add("roles[%d].scopes: %w", i, err)
			} else if s.Provider() != c.Name {
				ps.add("roles[%d].scopes: %s is not a scope of this provider: begin it with %s:", i, text, c.Name)
			}
			serves = append(serves, s)
		}
		var err error
		if one.serves, err = scopes.NewSet(serves...); err != nil || len(serves) == 0 {
			ps.add("roles[%d].scopes: name 1 to %d scopes", i, scopes.MaxScopes)
		}
		if len(r.ARNs) == 0 || len(r.ARNs) > maxPool {
			ps.add("roles[%d].arns: name 1 to %d roles", i, maxPool)
		}
		for _, arn := range r.ARNs {
			m := roleForm.FindStringSubmatch(arn)
			if m == nil {
				ps.add("roles[%d].arns: %q is not the ARN of a role", i, arn)
				continue
			}
			if one.partition != "" && one.partition != m[1] {
				ps.add("roles[%d].arns: the roles are of two partitions", i)
			}
			one.partition = m[1]
			one.arns = append(one.arns, arn)
		}
		out = append(out, one)
	}
	return out
}

// rule finds the role that serves all of a set: a credential is one session.
func (d *Driver) rule(set scopes.Set) (rule, error) {
	for _, r := range d.rules {
		if r.serves.Covers(set) {
			return r, nil
		}
	}
	return rule{}, fmt.Errorf("%w: no configured role serves all of %s: ask for less at once, or for what a role serves", provider.ErrUnsupported, set)
}

// pick spreads leases over a pool and passes over roles that must not mint now.
// When all must not, the mint is refused and not busy: that would keep the broker
// from calling AWS at all, to revoke too, which alone makes room.
func (d *Driver) pick(r rule, leaseID, taskID string, now time.Time) (arn string, err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(leaseID))
	first := int(h.Sum32() % uint32(len(r.arns)))
	for i := range r.arns {
		if arn := r.arns[(first+i)%len(r.arns)]; d.writer(arn).shutFor(taskID, now) <= 0 {
			return arn, nil
		}
	}
	return "", provider.Refused("The roles of this scope hold as many revoked sessions as AWS lets ebb deny: ask again in some minutes, and ask the operator to add roles to the pool.", nil)
}
