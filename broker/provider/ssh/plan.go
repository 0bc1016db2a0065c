package ssh

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// Actions. Exactly one of login and run.<command> is needed: a certificate
// without a forced command always lets run any.
const (
	actionLogin = "login"
	actionRun   = "run."
)

// extensions are the actions that permit more than commands (PROTOCOL.certkeys, "Extensions"). All
// other extensions, such as X11 and ~/.ssh/rc, are never permitted.
var extensions = map[string]string{
	"pty":              "permit-pty",
	"port-forwarding":  "permit-port-forwarding",
	"agent-forwarding": "permit-agent-forwarding",
}

// plan is what a certificate will say.
type plan struct {
	principals []string // sorted, never empty
	groups     []string // sorted
	extensions []string // sorted
	force      string   // "" = any command
	sources    string   // comma-separated CIDR ranges, "" = anywhere
}

// planOf maps scopes to a certificate that permits exactly them. One certificate
// has one set of options for all its principals, so every login on every group
// must ask for the same actions. The error wraps provider.ErrUnsupported.
func (s *settings) planOf(set scopes.Set) (plan, error) {
	var p plan
	actions := map[string][]string{} // principal -> actions, in the set's order
	var sources []netip.Prefix
	for i, scope := range set.Scopes() {
		group, principal, from, err := s.target(scope)
		if err != nil {
			return plan{}, err
		}
		if i > 0 && !slices.Equal(from, sources) {
			return plan{}, unsupported("one certificate has one source-address, and these groups have several: ask for each group by itself")
		}
		sources = from
		actions[principal] = append(actions[principal], scope.Action())
		p.groups = append(p.groups, group)
	}
	if len(actions) == 0 {
		return plan{}, unsupported("no scope")
	}
	p.principals = slices.Sorted(maps.Keys(actions))
	asked := sorted(actions[p.principals[0]])
	for _, principal := range p.principals {
		if !slices.Equal(sorted(actions[principal]), asked) {
			return plan{}, unsupported("one certificate permits the same for each of its principals: ask for %s and %s by themselves", p.principals[0], principal)
		}
	}
	p.groups = slices.Compact(sorted(p.groups))
	p.sources = joinPrefixes(sources)
	return p, s.permit(&p, asked)
}

// target is the group and principal that a scope is for.
func (s *settings) target(scope scopes.Scope) (groupName, principal string, from []netip.Prefix, err error) {
	segments := scope.Segments()
	if len(segments) != 2 {
		return "", "", nil, unsupported("%s: a resource is <group>/<login>", scope)
	}
	name, login := segments[0], segments[1]
	g, known := s.groups[name]
	if !known && groupForm.MatchString(name) {
		if _, domain, ok := strings.Cut(name, "."); ok {
			g, known = s.groups["*."+domain]
		}
	}
	if !known {
		return "", "", nil, unsupported("%s: there is no such group of hosts; a pattern cannot be certified", scope)
	}
	if !slices.Contains(g.logins, login) {
		return "", "", nil, unsupported("%s: there is no such login in the group; a pattern cannot be certified", scope)
	}
	if s.Principals == principalsLogin {
		return name, login, g.sources, nil
	}
	return name, login + "@" + name, g.sources, nil
}

// permit turns actions into options.
func (s *settings) permit(p *plan, actions []string) error {
	entries := 0
	for _, a := range actions {
		if a == actionLogin {
			entries++
		} else if name, ok := strings.CutPrefix(a, actionRun); ok {
			entries++
			if p.force, ok = s.Commands[name]; !ok {
				return unsupported("there is no command %q", name)
			}
		} else if e, ok := extensions[a]; ok {
			p.extensions = append(p.extensions, e)
		} else {
			return unsupported("there is no action %q: known are login, run.<command>, pty, port-forwarding, agent-forwarding", a)
		}
	}
	if entries != 1 {
		return unsupported("exactly one of login and run.<command> is needed: a certificate permits any command or one")
	}
	slices.Sort(p.extensions)
	return nil
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", provider.ErrUnsupported, fmt.Sprintf(format, args...))
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func joinPrefixes(list []netip.Prefix) string {
	texts := make([]string, 0, len(list))
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}
