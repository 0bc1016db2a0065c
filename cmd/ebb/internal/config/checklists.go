package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ebb/broker"
	"ebb/scopes"
)

func (c *Config) checkAttestors(src map[string]string, ps *Problems) {
	seen := map[string]bool{}
	for i, a := range c.Attestors {
		at := fmt.Sprintf("attestors[%d]", i)
		checkName(at, a.Name, a.Kind, seen, src, ps)
		c.checkLiveness(at, a, src, ps)
		if a.Header != "" && a.Kind == "enroll" {
			ps.add(at+".evidence_header", src[at], "no platform writes tickets and task tokens", "leave it out")
		} else if err := broker.CheckEvidenceHeader(a.Header); a.Header != "" && err != nil {
			ps.add(at+".evidence_header", src[at], err.Error(), "name the header that the platform's egress sets, such as X-Workload-Token")
		}
		if (a.Kind == "enroll") != (a.Name == "enroll") {
			ps.add(at+".name", src[at], "the attestor of kind enroll is named enroll, and no other is", "rename it, or remove it: it is always there")
		}
	}
}

func (c *Config) checkLiveness(at string, a Attestor, src map[string]string, ps *Problems) {
	if !slices.Contains([]string{"", "complete", "pause", "nothing"}, a.OnDeath) {
		ps.add(at+".on_death", src[at], fmt.Sprintf("%q is nothing that can follow", a.OnDeath), "write complete, pause or nothing")
	}
	if !slices.Contains([]string{"", "complete", "nothing"}, a.OnLapse) {
		ps.add(at+".on_lapse", src[at], fmt.Sprintf("%q is nothing that can follow", a.OnLapse), "write complete or nothing")
	}
	switch {
	case a.Reattest != 0 && a.Kind == "enroll":
		ps.add(at+".reattest", src[at], "a ticket serves once, so that nobody could attest again", "leave it out")
	case a.Reattest != 0 && a.Reattest < broker.MinReattest:
		ps.add(at+".reattest", src[at], "it is too short to attest again in", "write 10s or more")
	case a.OnLapse == "complete" && a.Reattest == 0:
		ps.add(at+".on_lapse", src[at], "nothing lapses without reattest", "set reattest, such as 5m")
	}
}

func checkName(at, name, kind string, seen map[string]bool, src map[string]string, ps *Problems) {
	if !nameForm.MatchString(name) {
		ps.add(at+".name", src[at], fmt.Sprintf("%q is not a name", name), "use a lower-case letter, then up to 31 of a-z, 0-9 and -")
	} else if seen[name] {
		ps.add(at+".name", src[at], fmt.Sprintf("%q is used twice", name), "give each its own name")
	}
	seen[name] = true
	if kind == "" {
		ps.add(at+".kind", src[at], "it is missing", "say what kind it is")
	}
}

func (c *Config) checkProviders(src map[string]string, ps *Problems) {
	seen, resources := map[string]bool{}, map[string]bool{}
	for i, p := range c.Providers {
		at := fmt.Sprintf("providers[%d]", i)
		checkName(at, p.Name, p.Kind, seen, src, ps)
		u, err := url.Parse(p.Resource)
		switch {
		case err != nil || !u.IsAbs() || u.Fragment != "" || u.User != nil:
			ps.add(at+".resource", src[at], fmt.Sprintf("%q is not an absolute URI without a fragment (RFC 8707)", p.Resource), "write the address of the API that accepts its tokens, such as https://orders.example.com")
		case resources[p.Resource]:
			ps.add(at+".resource", src[at], "another provider has the same resource", "one resource belongs to one provider")
		}
		resources[p.Resource] = true
		if p.Parallel < 0 || p.Parallel > 1000 || p.MaxLive < 0 {
			ps.add(at, src[at], "parallel or max_live is out of range", "choose parallel from 1 to 1000 and max_live from 1, or leave them out")
		}
		for _, action := range slices.Concat(p.Words.Reversible, p.Words.Irreversible) {
			if _, err := scopes.New("x", "x", action); err != nil || strings.Contains(action, scopes.Any) {
				ps.add(at, src[at], fmt.Sprintf("reversible or irreversible: %q is no action", action), "name actions as the last parts of scopes do, such as write")
			}
			if slices.Contains(p.Words.Reversible, action) && slices.Contains(p.Words.Irreversible, action) {
				ps.add(at, src[at], fmt.Sprintf("%q is both reversible and irreversible", action), "leave it in one of the lists")
			}
		}
		if p.MaxTTL > c.Limits.MaxTTL {
			ps.add(at+".max_ttl", src[at], "it is longer than limits.token_ttl", "shorten it or raise limits.token_ttl")
		}
	}
}

func (c *Config) checkPrincipals(src map[string]string, ps *Problems) {
	seen := map[string]bool{}
	for i, p := range c.Principals {
		at := fmt.Sprintf("principals[%d]", i)
		bad := func(key, wrong, remedy string) { ps.add(at+"."+key, src[at], wrong, remedy) }
		if !principalForm.MatchString(p.ID) {
			bad("id", fmt.Sprintf("%q is not an id", p.ID), "use up to 128 letters, digits and . _ @ + -")
		} else if seen[p.ID] {
			bad("id", fmt.Sprintf("%q is used twice", p.ID), "give each its own id")
		}
		seen[p.ID] = true
		if len(p.Roles) == 0 {
			bad("roles", "there is none", "give it at least one of "+strings.Join(roles, ", "))
		}
		if src[at+".keys"] == "" && p.Attestor == "" {
			bad("keys", "there is no way to recognise it", "add keys (see `ebb keys new`) or match")
		}
		if (p.Attestor == "") != (len(p.Selectors) == 0) {
			bad("match", "it needs attestor and selectors", "set both; without selectors everybody would match")
		}
		if p.Attestor != "" && !slices.ContainsFunc(c.Attestors, func(a Attestor) bool { return a.Name == p.Attestor }) {
			bad("match.attestor", fmt.Sprintf("no attestor is named %q", p.Attestor), "name one of attestors")
		}
		if slices.Contains(p.Roles, broker.RoleApprover) && len(p.Groups) == 0 {
			bad("groups", "an approver without groups can decide nothing", "add the groups that policies ask, or remove the role")
		}
		if src[at+".scopes"] != "" && !slices.Contains(p.Roles, broker.RoleApprover) {
			bad("scopes", "they limit what an approver decides, and it is none", "remove them, or add the role")
		}
		c.checkPatterns(at+".scopes", src[at], p.Scopes, ps)
		if slices.Contains(p.Roles, broker.RoleResourceServer) && len(p.Audiences) == 0 {
			bad("audiences", "a resource server without audiences sees no token", "add the resource URIs it serves, or remove the role")
		}
	}
}
