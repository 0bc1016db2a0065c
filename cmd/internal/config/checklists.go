package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/scopes"
)

func (c *Config) checkAttestors(src map[string]string, ps *Problems) {
	seen := map[string]bool{}
	for i, a := range c.Attestors {
		at := fmt.Sprintf("attestors[%d]", i)
		checkName(at, a.Name, a.Kind, seen, src, ps)
		c.checkLiveness(at, a, src, ps)
		if a.Header != "" && a.Kind == "enroll" {
			ps.add(at+".evidence_header", src[at], "the attestor enroll takes tickets and task tokens, which no platform sends in a header", "remove it")
		} else if err := identity.CheckEvidenceHeader(a.Header); a.Header != "" && err != nil {
			ps.add(at+".evidence_header", src[at], err.Error(), "name the header that the platform's egress sets, such as X-Workload-Token")
		}
		if (a.Kind == "enroll") != (a.Name == "enroll") {
			ps.add(at+".name", src[at], "the attestor of kind enroll must be named enroll, and no other may have that name", "rename it, or remove it: enroll exists without configuration")
		}
	}
}

func (c *Config) checkLiveness(at string, a Attestor, src map[string]string, ps *Problems) {
	if !slices.Contains([]string{"", "complete", "pause", "nothing"}, a.OnSandboxExit) {
		ps.add(at+".on_sandbox_exit", src[at], fmt.Sprintf("%q is not an action", a.OnSandboxExit), "write complete, pause or nothing")
	}
	if !slices.Contains([]string{"", "complete", "nothing"}, a.OnMissedAttestation) {
		ps.add(at+".on_missed_attestation", src[at], fmt.Sprintf("%q is not an action", a.OnMissedAttestation), "write complete or nothing")
	}
	switch {
	case a.Reattest != 0 && a.Kind == "enroll":
		ps.add(at+".reattest", src[at], "a ticket can be used only once, so a sandbox cannot attest again with it", "remove it")
	case a.Reattest != 0 && a.Reattest < broker.MinReattest:
		ps.add(at+".reattest", src[at], "it is shorter than 10s", "write 10s or more")
	case a.OnMissedAttestation == "complete" && a.Reattest == 0:
		ps.add(at+".on_missed_attestation", src[at], "it has no effect without reattest", "set reattest, such as 5m")
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
		ps.add(at+".kind", src[at], "it is missing", "set kind")
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
			ps.add(at+".resource", src[at], fmt.Sprintf("%q is not an absolute URI without a fragment (RFC 8707)", p.Resource), "write the URL of the API that accepts its tokens, such as https://orders.example.com")
		case resources[p.Resource]:
			ps.add(at+".resource", src[at], "another provider has the same resource", "use each resource for one provider only")
		}
		resources[p.Resource] = true
		if p.Parallel < 0 || p.Parallel > 1000 || p.MaxLive < 0 {
			ps.add(at, src[at], "parallel or max_live is out of range", "choose parallel from 1 to 1000 and max_live from 1, or remove them")
		}
		for _, action := range slices.Concat(p.Words.Reversible, p.Words.Irreversible) {
			if _, err := scopes.New("x", "x", action); err != nil || strings.Contains(action, scopes.Any) {
				ps.add(at, src[at], fmt.Sprintf("reversible or irreversible: %q is not an action", action), "write the last part of a scope, such as write")
			}
			if slices.Contains(p.Words.Reversible, action) && slices.Contains(p.Words.Irreversible, action) {
				ps.add(at, src[at], fmt.Sprintf("%q is both reversible and irreversible", action), "remove it from one of the lists")
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
			bad("roles", "it is empty", "set at least one of "+strings.Join(roles, ", "))
		}
		if src[at+".keys"] == "" && p.Attestor == "" {
			bad("keys", "there are neither keys nor match, so it cannot authenticate", "add keys (see `ebb keys new`) or match")
		}
		if (p.Attestor == "") != (len(p.Selectors) == 0) {
			bad("match", "only one of attestor and selectors is set", "set both; without selectors every identity of the attestor would match")
		}
		if p.Attestor != "" && !slices.ContainsFunc(c.Attestors, func(a Attestor) bool { return a.Name == p.Attestor }) {
			bad("match.attestor", fmt.Sprintf("no attestor is named %q", p.Attestor), "name one of attestors")
		}
		if slices.Contains(p.Roles, broker.RoleApprover) && len(p.Groups) == 0 {
			bad("groups", "an approver without groups cannot decide any request", "add groups that policies name as approvers, or remove the role")
		}
		if src[at+".scopes"] != "" && !slices.Contains(p.Roles, broker.RoleApprover) {
			bad("scopes", "scopes limit an approver's decisions, and this principal is not an approver", "remove them, or add the role")
		}
		c.checkPatterns(at+".scopes", src[at], p.Scopes, ps)
		if slices.Contains(p.Roles, broker.RoleResourceServer) && len(p.Audiences) == 0 {
			bad("audiences", "a resource server without audiences can introspect no token", "add the resource URIs it serves, or remove the role")
		}
	}
}
