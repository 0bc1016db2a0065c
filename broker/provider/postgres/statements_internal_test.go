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
		{map[string][]string{"write": {"read public.orders", "update public.orders", `delete_all public."Orders"`, `insert "a.b"."c d"`, "call public.f"}}, ""},
		{map[string][]string{"write": {"update orders"}}, `statements.write: "update orders": name the table`},
		{map[string][]string{"write": {"update ?.orders"}}, `statements.write: "update ?.orders": name the table`},
		{map[string][]string{"write": {"update a.b.c"}}, `statements.write: "update a.b.c": name the table`},
		{map[string][]string{"write": {"update public.Orders"}}, `statements.write: "update public.Orders": name the table`},
		{map[string][]string{"write": {`update public."orders"`}}, `name the table`}, // package pgsql names it without quotes
		{map[string][]string{"write": {"update  public.orders"}}, `name the table`},
		{map[string][]string{"write": {"update "}}, `name the table`},
		{map[string][]string{"write": {"select public.orders"}}, `"select public.orders" is unknown`},
		{map[string][]string{"write": {"ddl public.orders"}}, `ddl cannot be limited to one object`},
		{map[string][]string{"write": {"admin public.orders"}}, `admin cannot be limited to one object`},
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
		{"update,update public.u", []content.Operation{op("update")}, ""},
		{"read,update public.t", []content.Operation{op("read"), op("update")}, ""},
		{"read,update public.u", []content.Operation{op("read"), op("update")}, "update of public.t"},
		{"read,update public.t", []content.Operation{op("read"), op("update", "no")}, "update_all of public.t"},
		{"update_all public.t", []content.Operation{op("update")}, "update of public.t"},
		{"update public.t", []content.Operation{op("update"), {Action: "update", Object: "?.t"}}, "update of ?.t"}, // the session decides about the schema
		{"truncate public.t", []content.Operation{op("truncate"), {Action: "truncate", Object: "?"}}, "truncate of ?"},
		{`update public."a b"`, []content.Operation{{Action: "update", Object: `public."a b"`}}, ""},
	} {
		allowed := strings.FieldsFunc(tt.allowed, func(r rune) bool { return r == ',' })
		if !strings.Contains(tt.allowed, "public") {
			allowed = strings.Fields(tt.allowed)
		}
		slices.Sort(allowed)
		why := deniedBy(allowed, content.Facts{Operations: tt.ops})
		if (why == "") != (tt.denied == "") || !strings.HasPrefix(why, tt.denied) {
			t.Errorf("%s: %v: %q", tt.allowed, tt.ops, why)
		}
	}
}

// TestNeededForAText: the lease for a text that people approve has the scopes of the session, unless
// its read-only mode would make the server refuse the text.
func TestNeededForAText(t *testing.T) {
	t.Parallel()
	d, err := New(Config{
		URL: "postgres://ebb@localhost/x?sslmode=disable", Address: "db.example.com:5432", SSLMode: "disable",
		Databases:  map[string]map[string]string{"orders": {"read": "ro", "write": "rw", "clean": "rw", "held": "rw", "all": "rw", "part": "ro"}, "log": {"read": "ro", "write": "rw"}},
		Statements: map[string][]string{"read": {"read"}, "part": {"read public.a"}, "write": {"read", "insert", "update"}, "clean": {"read", "insert", "update", "delete"}, "held": {}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ own, action, want string }{
		{"write", "delete", "write"},
		{"held", "read", "held"},
		{"read", "delete", "clean"}, // allows it
		{"read", "update", "write"}, // the fewest that allow it
		{"read", "truncate", "held"},
		{"part", "truncate", "held"},
		{"read", "call", "read"}, // in read-only mode
		{"read", "unknown", "held"},
	} {
		own := scopes.MustParseSet("db:orders:" + tt.own)
		allowed, _ := d.cfg.statements(own)
		got := d.judge(own, allowed)(content.Facts{Operations: []content.Operation{{Action: tt.action, Object: "?.t"}}})
		if got == nil || got.Needed.String() != "db:orders:"+tt.want {
			t.Errorf("%s in %s: %+v", tt.action, tt.own, got)
		}
	}
	own := scopes.MustParseSet("other:log:read") // the name of the provider is that of the scope
	if got := d.needed(own, []string{"read"}, content.Facts{Operations: []content.Operation{{Action: "delete", Object: "?.t"}}}); got.String() != "other:log:write" {
		t.Errorf("in another database: %s", got)
	}
	for set, want := range map[string]bool{"db:orders:read": true, "db:orders:held": true, "db:orders:all": false, "db:orders:all db:orders:read": false} {
		if d.JudgesSessions(scopes.MustParseSet(set)) != want {
			t.Errorf("%s: judged is not %v", set, want)
		}
	}
	for list, want := range map[string]bool{"read": true, "read public.a": true, "read public.a,read": true, "": false, "read,insert": false, "insert public.read": false} {
		if readsOnly(strings.FieldsFunc(list, func(r rune) bool { return r == ',' })) != want {
			t.Errorf("%q: read-only is not %v", list, want)
		}
	}
}
