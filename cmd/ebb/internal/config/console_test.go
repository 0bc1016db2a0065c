package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"ebb/broker"
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
	want := map[broker.Role][]string{broker.RoleApprover: {"web", "Team A, B"}, broker.RoleAuditor: {"audit"}, broker.RoleOperator: {"ops", "sre"}}
	if got := c.Console.Roles.Map(); !reflect.DeepEqual(got, want) {
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
		"console: {oidc: {issuer: 'https://u:p@a.test/#x', client_id: x, scopes: [profile, 'a b'], acr_values: ['']}, roles: {viewer: [a]}}": {"console.roles.viewer", "console.oidc.issuer", "console.oidc.client_secret_file",
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
