package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

const withOIDC = `console:
  oidc: {issuer: "https://sso.example.com/realms/main", client_id: ebb, scopes: [openid, groups], acr_values: [phr, phrh], name: corp, subject_claim: email}
  roles: {approver: [web, "Team A, B"], auditor: [audit]}
`

func TestConsole(t *testing.T) {
	t.Parallel()
	c, err := load(t, withOIDC, "EBB_CONSOLE_OIDC_CLIENT_SECRET=hush", "EBB_CONSOLE_ROLES_OPERATOR=ops,sre")
	if err != nil {
		t.Fatal(err)
	}
	want := broker.RoleGroups{broker.RoleApprover: {{Group: "web"}, {Group: "Team A, B"}}, broker.RoleAuditor: {{Group: "audit"}}, broker.RoleOperator: {{Group: "ops"}, {Group: "sre"}}}
	if got := c.Console.Roles.Groups(); !reflect.DeepEqual(got, want) {
		t.Errorf("roles %v", got)
	}
	if o := c.Console.OIDC; o.ClientSecret().Reveal() != "hush" || o.GroupsClaim != "groups" || o.NameClaim != "name" || o.Name != "corp" || !slices.Equal(o.ACRValues, []string{"phr", "phrh"}) {
		t.Errorf("%+v", o)
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := load(t, withOIDC, "EBB_CONSOLE_OIDC_CLIENT_SECRET_FILE="+file); err != nil || c.Console.OIDC.ClientSecret().Reveal() != "hush" {
		t.Errorf("from the file: %v", err)
	}
}

func TestConsoleWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"console: {oidc: {client_id: x}, roles: {auditor: [a]}}":                                                         {"console.oidc.client_id", "console.roles.auditor"},
		"console: {oidc: {issuer: https://a.test}}":                                                                      {"console.oidc.client_id", "console.oidc.client_secret_file", "console.roles"},
		"console: {oidc: {issuer: 'http://a.test', client_id: x, name: 'A:b', client_secret: x}, roles: {auditor: [a]}}": {"console.oidc.client_secret", "console.oidc.issuer", "console.oidc.name", "console.oidc.client_secret_file"},
		"console: {oidc: {issuer: 'https://u:p@a.test/#x', client_id: x, scopes: [profile, 'a b'], acr_values: ['']}, roles: {looker: [a]}}": {"console.roles.looker", "console.oidc.issuer", "console.oidc.client_secret_file",
			"console.oidc.scopes", "console.oidc.scopes", "console.oidc.acr_values", "console.roles"},
		"console: {oidc: {issuer: 'https://a.test?x=1', client_id: x, client_secret_file: /nonexistent, groups_claim: ''}, roles: {auditor: [\"a\\u202eb\"]}}": {"console.oidc.client_secret_file", "console.oidc.issuer", "console.oidc.groups_claim", "console.roles.auditor"},
	} {
		_, err := load(t, text)
		if err == nil {
			t.Errorf("taken: %s", text)
			continue
		}
		got := wrong(t, err)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", text, got, want)
		}
	}
}

// TestBreakGlass: disabled unless groups or people are named, and never longer
// than half an hour.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	c, err := load(t, "")
	if g := c.Console.BreakGlass; err != nil || g.On() || g.TTL != 30*time.Minute || g.Decisions != 5 || g.PerDay != 3 {
		t.Errorf("%+v, %v", g, err)
	}
	c, err = load(t, "console: {break_glass: {groups: [oncall], people: ['sso:7'], ttl: 10m, approvals: 2, per_day: 1}}")
	if g := c.Console.BreakGlass; err != nil || !slices.Equal(g.Groups, []string{"oncall"}) || !slices.Equal(g.People, []string{"sso:7"}) || g.TTL != 10*time.Minute || g.Decisions != 2 || g.PerDay != 1 {
		t.Errorf("%+v, %v", g, err)
	}
	for text, want := range map[string][]string{
		"{ttl: 10m, per_day: 2}":                                    {"console.break_glass.ttl", "console.break_glass.per_day"},
		"{groups: [a], ttl: 31m}":                                   {"console.break_glass.ttl"},
		"{groups: [a], ttl: 0s, approvals: 0, per_day: 21}":         {"console.break_glass.ttl", "console.break_glass.approvals", "console.break_glass.per_day"},
		"{groups: [a], approvals: -1}":                              {"console.break_glass.approvals"},
		"{groups: ['']}":                                            {"console.break_glass.groups"},
		"{people: [\"a\\u202eb\", ' c']}":                           {"console.break_glass.people"},
		"{people: [\u0430nn]}":                                      {"console.break_glass.people"},
		"{people: [a], who: b}":                                     {"console.break_glass.who"},
		"{people: [ci]}}\nprincipals: [{id: ci, roles: [runner]}]#": {"console.break_glass.people", "principals[0].keys"},
	} {
		_, err := load(t, "console: {break_glass: "+strings.TrimSuffix(text+"}", "#}"))
		if err == nil {
			t.Errorf("taken: %s", text)
			continue
		}
		if got := wrong(t, err); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestApproverLimits: limits of approvers, and mistakes that would grant more
// than intended, or nothing.
func TestApproverLimits(t *testing.T) {
	t.Parallel()
	const head = "console:\n  oidc: {issuer: 'https://a.test', client_id: x}\n  roles: {viewer: [all], approver: "
	c, err := load(t, head+`[web, {group: "on call: pay", scopes: ["local:pay/**:*", "local:refunds:write"]}]}`, "EBB_CONSOLE_OIDC_CLIENT_SECRET=hush")
	if err != nil {
		t.Fatal(err)
	}
	got := c.Console.Roles.Groups()
	if a := got[broker.RoleApprover]; len(a) != 2 || a[0].Group != "web" || !a[0].Scopes.Empty() || a[1].Group != "on call: pay" || a[1].Scopes.String() != "local:pay/**:* local:refunds:write" || got[broker.RoleViewer][0].Group != "all" {
		t.Errorf("%+v", got)
	}
	c, err = load(t, head+"[web]}", "EBB_CONSOLE_OIDC_CLIENT_SECRET=hush", "EBB_CONSOLE_ROLES_APPROVER=a, b")
	if a := c.Console.Roles.Approver; err != nil || len(a) != 2 || a[0].Group != "a" || a[1].Group != "b" {
		t.Errorf("by a variable: %+v, %v", a, err)
	}
	c, err = load(t, head+"[web]}", "EBB_CONSOLE_OIDC_CLIENT_SECRET=hush", "EBB_CONSOLE_ROLES_APPROVER=[{group: a, scopes: ['local:x:*']}]")
	if a := c.Console.Roles.Approver; err != nil || len(a) != 1 || a[0].Scopes.String() != "local:x:*" {
		t.Errorf("a limit by a variable: %+v, %v", a, err)
	}
	for text, want := range map[string][]string{
		"[{group: a, scopes: []}]":                           {"console.roles.approver[0].scopes"},
		"[{group: a}]":                                       {"console.roles.approver[0].scopes"},
		"[{group: a, scopes: ['**']}]":                       {"console.roles.approver[0].scopes"},
		"[{group: a, scopes: ['*:**:*']}]":                   {"console.roles.approver[0].scopes"},
		"[{group: a, scopes: ['']}]":                         {"console.roles.approver[0].scopes"},
		"[{group: a, scopes: ['stripe:**:*']}]":              {"console.roles.approver"},
		"[{scopes: ['local:x:*']}]":                          {"console.roles.approver"},
		"[a, {group: a, scopes: ['local:x:*']}]":             {"console.roles.approver"},
		"[{group: a, scope: ['local:x:*']}]":                 {"console.roles.approver[0].scope", "console.roles.approver[0].scopes"},
		"[{group: \"a\\u202eb\", scopes: ['local:x:*']}]":    {"console.roles.approver"},
		"[{group: ' a', scopes: ['local:x:*']}]":             {"console.roles.approver"},
		"[[a]]":                                              {"console.roles.approver[0]", "console.roles.approver[0].scopes", "console.roles.approver"},
		"a":                                                  {"console.roles.approver", "console.roles"},
		"[{group: a, scopes: ['local:x:*', 'local:x y:*']}]": {"console.roles.approver[0].scopes"},
	} {
		text := head + text + "}"
		if strings.HasSuffix(text, "approver: a}") {
			text = strings.Replace(text, "viewer: [all], ", "", 1)
		}
		_, err := load(t, text, "EBB_CONSOLE_OIDC_CLIENT_SECRET=hush")
		if err == nil {
			t.Errorf("taken: %s", text)
			continue
		}
		got := wrong(t, err)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", text, got, want)
		}
	}
}

func TestPrincipalLimits(t *testing.T) {
	t.Parallel()
	const key = `keys: [{kty: EC, crv: P-256, x: f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU, y: x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0}]`
	c, err := load(t, "principals: [{id: ann, roles: [approver], groups: [g], scopes: ['local:x/**:*'], "+key+"}]")
	if err != nil || c.Principals[0].Scopes.String() != "local:x/**:*" {
		t.Fatal(c.Principals, err)
	}
	for text, want := range map[string][]string{
		"roles: [approver], groups: [g], scopes: []":              {"principals[0].scopes"},
		"roles: [approver], groups: [g], scopes: ['*']":           {"principals[0].scopes"},
		"roles: [approver], groups: [g], scopes: ['github:**:*']": {"principals[0].scopes"},
		"roles: [auditor], scopes: ['local:x:*']":                 {"principals[0].scopes"},
		"roles: [approver], groups: [g], scopes: 'local:x:*'":     {"principals[0].scopes", "principals[0].scopes"},
	} {
		_, err := load(t, "principals: [{id: ann, "+text+", "+key+"}]")
		if err == nil {
			t.Errorf("taken: %s", text)
			continue
		}
		if got := wrong(t, err); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", text, got, want)
		}
	}
}
