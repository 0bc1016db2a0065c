package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/scopes"
)

// TestStatementsConfig: New refuses a line for an action that no database has, and an unknown
// statement, so that a typing error limits nothing silently.
func TestStatementsConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		statements map[string][]string
		problem    string
	}{
		{map[string][]string{"read": {"read"}, "write": {"read", "insert", "update", "update_all", "delete", "delete_all", "truncate", "lock", "call", "ddl", "admin"}}, ""},
		{map[string][]string{"read": {}}, ""},
		{map[string][]string{"reed": {"read"}}, `statements: "reed"`},
		{map[string][]string{"read": {"select"}}, `statements.read: "select"`},
		{map[string][]string{"read": {"unknown"}}, `statements.read: "unknown"`},
		{map[string][]string{"read": {"insert_all"}}, `statements.read: "insert_all"`},
	} {
		_, err := New(Config{URL: "postgres://ebb@localhost/x?sslmode=disable", Databases: map[string]map[string]string{"orders": {"read": "ro"}, "log": {"write": "rw"}}, Statements: tt.statements}, nil)
		if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%v: %v", tt.statements, err)
		}
	}
}

// TestStatementsOfScopes: a session may use the statements of all of its actions. If one action has
// no line, the role alone limits the session.
func TestStatementsOfScopes(t *testing.T) {
	t.Parallel()
	c := Config{Statements: map[string][]string{"read": {"read"}, "write": {"update", "read"}, "none": {}}}
	for set, want := range map[string]string{
		"db:orders:read": "read", "db:orders:write": "read update", "db:orders:read db:orders:write": "read update", "db:orders:none": "",
		"db:orders:admin": "-", "db:orders:read db:orders:admin": "-", "db:orders:admin db:orders:read": "-",
	} {
		got := "-"
		if allowed, read := c.statements(scopes.MustParseSet(set)); read {
			got = strings.Join(allowed, " ")
		}
		if got != want {
			t.Errorf("%s: %q", set, got)
		}
	}
}

// TestStatementsJudged: every operation of a text must be allowed, and one on every row by a name of
// its own. Unknown operations are never allowed.
func TestStatementsJudged(t *testing.T) {
	t.Parallel()
	op := func(action string, where ...string) content.Operation {
		o := content.Operation{Action: action, Object: "public.t"}
		if len(where) > 0 {
			o.Details = map[string]string{"where": where[0]}
		}
		return o
	}
	for _, tt := range []struct {
		allowed string
		ops     []content.Operation
		denied  string // the name in the clause; "" = allowed
	}{
		{"read", []content.Operation{op("read"), op("session")}, ""},
		{"", []content.Operation{op("session")}, ""},
		{"", []content.Operation{op("read")}, "read of public.t"},
		{"read update", []content.Operation{op("read"), op("update"), op("delete")}, "delete of public.t"},
		{"update", []content.Operation{op("update", "no")}, "update_all of public.t"},
		{"update_all", []content.Operation{op("update", "no")}, ""},
		{"update_all", []content.Operation{op("update")}, "update of public.t"},
		{"read insert update update_all delete delete_all truncate lock call ddl admin", []content.Operation{op("unknown")}, "unknown of public.t"},
	} {
		allowed := strings.Fields(tt.allowed)
		slices.Sort(allowed)
		why := deniedBy(allowed, content.Facts{Operations: tt.ops})
		if (why == "") != (tt.denied == "") || !strings.HasPrefix(why, tt.denied) {
			t.Errorf("%s: %v: %q", tt.allowed, tt.ops, why)
		}
	}
}
