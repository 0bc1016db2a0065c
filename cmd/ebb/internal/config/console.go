package config

import (
	"slices"
	"strings"

	"ebb/attest/fetch"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/provider"
)

// Console says how people sign in to the web console.
type Console struct {
	OIDC  OIDC
	Roles Roles
}

// OIDC is the provider that knows people. No Issuer means: none.
type OIDC struct {
	Issuer, Name, ClientID               string
	Scopes, ACRValues                    []string
	GroupsClaim, NameClaim, SubjectClaim string
	Private                              bool

	clientSecretFile string
	clientSecret     provider.Secret
}

// ClientSecret is the client secret of ebb at the provider.
func (o OIDC) ClientSecret() provider.Secret { return o.clientSecret }

// Roles are groups, by what their members may do.
type Roles struct{ Approver, Auditor, Operator []string }

// Map is the same by the broker's names of roles.
func (r Roles) Map() map[broker.Role][]string {
	out := map[broker.Role][]string{}
	for role, groups := range map[broker.Role][]string{broker.RoleApprover: r.Approver, broker.RoleAuditor: r.Auditor, broker.RoleOperator: r.Operator} {
		if len(groups) > 0 {
			out[role] = groups
		}
	}
	return out
}

func (c *Config) checkConsole(src map[string]string, ps *Problems) {
	const prefix = "console.oidc."
	o := c.Console.OIDC
	if o.Issuer == "" {
		for _, k := range keys {
			if strings.HasPrefix(k.Path, "console.") && src[k.Path] != "" {
				ps.add(k.Path, src[k.Path], "it has no effect: console.oidc.issuer is empty", "set console.oidc.issuer or remove the key")
			}
		}
		return
	}
	if _, err := fetch.NewPlace(o.Issuer, fetch.Config{}); err != nil || strings.ContainsAny(o.Issuer, "?#") {
		ps.add(prefix+"issuer", src[prefix+"issuer"], "it cannot be an issuer (OpenID Connect Discovery section 3)", "write it as the provider does, such as https://sso.example.com")
	}
	if !nameForm.MatchString(o.Name) {
		ps.add(prefix+"name", src[prefix+"name"], "it cannot be the first part of an id", "use a-z, 0-9 and -, at most 32 characters")
	}
	if o.ClientID == "" {
		ps.add(prefix+"client_id", src[prefix+"issuer"], "it is missing", "register ebb at the provider and set it")
	}
	if o.clientSecret.Empty() && o.clientSecretFile == "" {
		ps.add(prefix+"client_secret_file", src[prefix+"issuer"], "there is no client secret", "write it to a file with mode 0600 and name that, or set "+Variable(prefix+"client_secret"))
	}
	if !slices.Contains(o.Scopes, "openid") {
		ps.add(prefix+"scopes", src[prefix+"scopes"], "openid is not among them", "add it: without it there is no ID token")
	}
	for _, l := range []struct {
		key  string
		list []string
	}{{prefix + "scopes", o.Scopes}, {prefix + "acr_values", o.ACRValues}} {
		if slices.ContainsFunc(l.list, func(s string) bool { return s == "" || strings.ContainsAny(s, " \t\"\\") }) {
			ps.add(l.key, src[l.key], "one of them is empty, or holds a space or a quote", "write each as one element of the list")
		}
	}
	for _, k := range []struct{ key, claim string }{{prefix + "groups_claim", o.GroupsClaim}, {prefix + "name_claim", o.NameClaim}, {prefix + "subject_claim", o.SubjectClaim}} {
		if k.claim == "" || !jose.Plain(k.claim) {
			ps.add(k.key, src[k.key], "it names no claim", "name one, or remove the key")
		}
	}
	c.checkRoles(src, ps)
}

func (c *Config) checkRoles(src map[string]string, ps *Problems) {
	r := c.Console.Roles
	if len(r.Map()) == 0 {
		ps.add("console.roles", src["console.oidc.issuer"], "nobody who signs in would have a role", "name groups in console.roles.approver, auditor or operator")
	}
	for _, l := range []struct {
		key    string
		groups []string
	}{{"console.roles.approver", r.Approver}, {"console.roles.auditor", r.Auditor}, {"console.roles.operator", r.Operator}} {
		if slices.ContainsFunc(l.groups, func(g string) bool { return g == "" || !jose.Plain(g) }) {
			ps.add(l.key, src[l.key], "a group has no name that can be shown", "write it as the provider does")
		}
	}
}
