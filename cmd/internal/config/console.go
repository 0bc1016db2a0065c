package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Console configures sign-in to the web console.
type Console struct {
	OIDC  OIDC
	Roles Roles
	Proof struct{ Low, Medium, High string }
	// BreakGlass is set without Check, which the component that verifies passkeys
	// sets.
	BreakGlass approval.BreakGlassConfig
}

// OIDC is the OpenID Connect provider of people. An empty Issuer means none.
type OIDC struct {
	Issuer, Name, ClientID               string
	Scopes, ACRValues                    []string
	GroupsClaim, NameClaim, SubjectClaim string
	Private                              bool

	clientSecretFile string
	clientSecret     secret.Secret
}

// ClientSecret is ebb's client secret at the provider.
func (o OIDC) ClientSecret() secret.Secret { return o.clientSecret }

// Roles are the groups whose members get each role.
type Roles struct {
	Viewer, Auditor, Operator []string
	Approver                  []broker.RoleGroup
}

// Groups returns the groups by the broker's roles.
func (r Roles) Groups() broker.RoleGroups {
	out := broker.RoleGroups{}
	for role, names := range map[broker.Role][]string{broker.RoleViewer: r.Viewer, broker.RoleAuditor: r.Auditor, broker.RoleOperator: r.Operator} {
		for _, name := range names {
			out[role] = append(out[role], broker.RoleGroup{Group: name})
		}
	}
	if len(r.Approver) > 0 {
		out[broker.RoleApprover] = r.Approver
	}
	return out
}

func (c *Config) checkConsole(src map[string]string, ps *Problems) {
	const prefix = "console.oidc."
	c.checkBreakGlass(src, ps)
	o := c.Console.OIDC
	if o.Issuer == "" {
		for _, k := range keys {
			if strings.HasPrefix(k.Path, "console.") && !strings.HasPrefix(k.Path, breakGlass) && src[k.Path] != "" {
				ps.add(k.Path, src[k.Path], "it has no effect: console.oidc.issuer is empty", "set console.oidc.issuer or remove the key")
			}
		}
		return
	}
	if _, err := fetch.NewPlace(o.Issuer, fetch.Config{}); err != nil || strings.ContainsAny(o.Issuer, "?#") {
		ps.add(prefix+"issuer", src[prefix+"issuer"], "it cannot be an issuer (OpenID Connect Discovery section 3)", "write it as the provider does, such as https://sso.example.com")
	}
	if !nameForm.MatchString(o.Name) {
		ps.add(prefix+"name", src[prefix+"name"], "it is not valid as the first part of an ID", "use a-z, 0-9 and -, at most 32 characters")
	}
	if o.ClientID == "" {
		ps.add(prefix+"client_id", src[prefix+"issuer"], "it is missing", "register ebb at the provider and set its client ID")
	}
	if o.clientSecret.Empty() && o.clientSecretFile == "" {
		ps.add(prefix+"client_secret_file", src[prefix+"issuer"], "there is no client secret", "write it to a file with mode 0600 and name the file, or set "+Variable(prefix+"client_secret"))
	}
	if !slices.Contains(o.Scopes, "openid") {
		ps.add(prefix+"scopes", src[prefix+"scopes"], "openid is not among them", "add it: without it there is no ID token")
	}
	for _, l := range []struct {
		key  string
		list []string
	}{{prefix + "scopes", o.Scopes}, {prefix + "acr_values", o.ACRValues}} {
		if slices.ContainsFunc(l.list, func(s string) bool { return s == "" || strings.ContainsAny(s, " \t\"\\") }) {
			ps.add(l.key, src[l.key], "an element is empty or contains a space or a quote", "write one value per element")
		}
	}
	for _, k := range []struct{ key, claim string }{{prefix + "groups_claim", o.GroupsClaim}, {prefix + "name_claim", o.NameClaim}, {prefix + "subject_claim", o.SubjectClaim}} {
		if k.claim == "" || !jose.Plain(k.claim) {
			ps.add(k.key, src[k.key], "it is empty or has control characters", "name a claim, or remove the key")
		}
	}
	c.checkRoles(src, ps)
}

// breakGlass is the prefix of the keys of break-glass approval. It needs no
// identity provider: a configured principal who signs in by a link proves
// presence with a passkey.
const breakGlass = "console.break_glass."

func (c *Config) checkBreakGlass(src map[string]string, ps *Problems) {
	g := c.Console.BreakGlass
	if !g.On() {
		for _, k := range keys {
			if strings.HasPrefix(k.Path, breakGlass) && src[k.Path] != "" {
				ps.add(k.Path, src[k.Path], "it has no effect: console.break_glass names neither groups nor people", "name groups or people, or remove the key")
			}
		}
	}
	if slices.ContainsFunc(g.Groups, func(n string) bool { return n == "" || !jose.Plain(n) || strings.TrimSpace(n) != n }) {
		ps.add(breakGlass+"groups", src[breakGlass+"groups"], "a group's name is empty, or has control characters or outer spaces", "write each name as the provider or the principal has it")
	}
	if i := slices.IndexFunc(g.People, func(n string) bool { return people.CheckName(n) != nil }); i >= 0 {
		ps.add(breakGlass+"people", src[breakGlass+"people"], fmt.Sprintf("%q is not the ID of a person: it %v", g.People[i], people.CheckName(g.People[i])), "write each ID as the audit log has it")
	}
	for _, p := range c.Principals {
		if slices.Contains(g.People, p.ID) && (slices.Contains(p.Roles, broker.RoleRunner) || slices.Contains(p.Roles, broker.RoleResourceServer)) {
			ps.add(breakGlass+"people", src[breakGlass+"people"], fmt.Sprintf("%q opens tasks or checks tokens", p.ID), "name other people: a runner must not approve requests of its own tasks")
		}
	}
	if g.TTL < time.Minute || g.TTL > approval.BreakGlassTTL {
		ps.add(breakGlass+"ttl", src[breakGlass+"ttl"], fmt.Sprintf("%s is out of range", g.TTL), fmt.Sprintf("choose from %s to %s", time.Minute, approval.BreakGlassTTL))
	}
	for _, n := range []struct {
		key      string
		got, max int
	}{{"approvals", g.Decisions, 20}, {"per_day", g.PerDay, 20}} {
		if n.got < 1 || n.got > n.max {
			ps.add(breakGlass+n.key, src[breakGlass+n.key], fmt.Sprintf("%d is out of range", n.got), fmt.Sprintf("choose from 1 to %d", n.max))
		}
	}
}

func (c *Config) checkRoles(src map[string]string, ps *Problems) {
	const approver = "console.roles.approver"
	r := c.Console.Roles
	if len(r.Groups()) == 0 {
		ps.add("console.roles", src["console.oidc.issuer"], "no person who signs in would have a role", "name groups in console.roles.approver, viewer, auditor or operator")
	}
	approvers := make([]string, len(r.Approver))
	for i, g := range r.Approver {
		approvers[i] = g.Group
		if slices.Contains(approvers[:i], g.Group) {
			ps.add(approver, src[approver], fmt.Sprintf("the group %q is named twice", g.Group), "name it once, with all its scopes")
		}
		c.checkPatterns(approver, src[approver], g.Scopes, ps)
	}
	for _, l := range []struct {
		key    string
		groups []string
	}{{approver, approvers}, {"console.roles.viewer", r.Viewer}, {"console.roles.auditor", r.Auditor}, {"console.roles.operator", r.Operator}} {
		if slices.ContainsFunc(l.groups, func(g string) bool { return g == "" || !jose.Plain(g) || strings.TrimSpace(g) != g }) {
			ps.add(l.key, src[l.key], "a group's name is empty, or has control characters or outer spaces", "write it as the provider does")
		}
	}
}

// checkPatterns refuses limits that name an unknown provider: no request would
// be within them, and the mistake would show only when no approver can decide.
func (c *Config) checkPatterns(key, at string, limits scopes.Set, ps *Problems) {
	for _, name := range limits.Providers() {
		known := slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Name == name }) || len(c.Providers) == 0 && name == LocalProvider
		if !known {
			ps.add(key, at, fmt.Sprintf("no provider is named %q, so no request has such a scope", name), "name one of providers as the first part of the scope")
		}
	}
}

// readApprovers reads groups: names, or mappings of a name and the scopes that
// it may decide.
func (c *Config) readApprovers(r *reader) listOf {
	return func(path string, n ast.Node) {
		c.Console.Roles.Approver = nil
		if text, ok := scalar(n); ok && !r.lines { // in a variable names are separated by commas, as in other lists
			var names []string
			if err := set(&names, text); err != nil {
				r.problems.add(path, r.name, err.Error(), "change the variable")
			}
			for _, name := range names {
				c.Console.Roles.Approver = append(c.Console.Roles.Approver, broker.RoleGroup{Group: name})
			}
			return
		}
		for i, item := range r.items(path, n) {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.src[at] = r.where(item)
			var g broker.RoleGroup
			name, plain := scalar(item)
			if plain {
				g.Group = name
			} else {
				var patterns []string
				r.mapping(at, item, []field{{"group", &g.Group}, {"scopes", &patterns}})
				g.Scopes = r.patterns(at+".scopes", r.where(item), patterns)
			}
			c.Console.Roles.Approver = append(c.Console.Roles.Approver, g)
		}
	}
}

// patterns reads limits. An empty list is refused, because it could be meant as
// "no limit".
func (r *reader) patterns(key, at string, texts []string) scopes.Set {
	var members []scopes.Scope
	for _, text := range texts {
		s, err := scopes.Parse(text)
		if err != nil {
			r.problems.add(key, at, err.Error(), "write provider:resource:action, such as stripe:**:*")
			continue
		}
		members = append(members, s)
	}
	set, err := scopes.NewSet(members...)
	if err != nil {
		r.problems.add(key, at, err.Error(), "name fewer or wider scopes")
	} else if len(texts) == 0 {
		r.problems.add(key, at, "it names no scope", "name at least one; for no limit, remove the key scopes and write the group alone")
	}
	return set
}
