package risk

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

func hold(set string, left time.Duration) Hold {
	return Hold{Scopes: scopes.MustParseSet(set), Audience: "https://x", Left: left, Binding: provider.Binding{JKT: "k"}}
}

func TestCompare(t *testing.T) {
	const min = time.Minute
	other := hold("x:a:write", min)
	other.Audience = "https://y"
	for name, c := range map[string]struct {
		now   []Hold
		asked Hold
		want  map[Field]Row
	}{
		"nothing yet": {nil, hold("x:a:write", 10*min), map[Field]Row{
			FieldPermission: {Asked: "write", Changed: true}, FieldResource: {Asked: "a", Changed: true}, FieldAudience: {Asked: "https://x", Changed: true},
			FieldTime: {Asked: "10 min", Changed: true}, FieldBinding: {Asked: "key k"},
		}},
		"more there": {[]Hold{hold("x:a:read", 15*min)}, hold("x:a:write", 10*min), map[Field]Row{
			FieldPermission: {Now: "read", Asked: "write", Changed: true}, FieldResource: {Now: "a", Asked: "a"}, FieldTime: {Now: "15 min", Asked: "10 min"},
			FieldBinding: {Now: "key k", Asked: "key k"},
		}},
		"elsewhere": {[]Hold{hold("x:a:write", min)}, hold("x:b:write", min), map[Field]Row{
			FieldPermission: {Asked: "write", Changed: true}, FieldResource: {Now: "a", Asked: "b", Changed: true},
		}},
		"crossed is an escalation": {[]Hold{hold("x:a:read x:b:write", min)}, hold("x:a:write", min), map[Field]Row{
			FieldPermission: {Now: "read", Asked: "write", Changed: true}, FieldResource: {Now: "a, b", Asked: "a"},
		}},
		"crossed pairs": {[]Hold{hold("x:a:read x:b:write", min)}, hold("x:a:write x:b:read", min), map[Field]Row{
			FieldPermission: {Now: "read on a, write on b", Asked: "read on b, write on a", Changed: true},
		}},
		"in one place of two": {[]Hold{hold("x:a:write", min)}, hold("x:a:write x:b:write", min), map[Field]Row{
			FieldPermission: {Asked: "write", Changed: true}, FieldResource: {Now: "a", Asked: "a, b", Changed: true},
		}},
		"longer only": {[]Hold{hold("x:a/**:write", min)}, hold("x:a/1:write", time.Hour), map[Field]Row{
			FieldPermission: {Now: "write", Asked: "write"}, FieldResource: {Now: "a/**", Asked: "a/1"}, FieldTime: {Now: "60 s", Asked: "60 min", Changed: true},
		}},
		"a pattern of a held scope": {[]Hold{hold("x:a/1:write", min)}, hold("x:a/**:write", min), map[Field]Row{
			FieldPermission: {Asked: "write", Changed: true}, FieldResource: {Now: "a/1", Asked: "a/**", Changed: true},
		}},
		"at another audience": {[]Hold{other}, hold("x:a:write", min), map[Field]Row{
			FieldPermission: {Asked: "write", Changed: true}, FieldAudience: {Now: "https://y", Asked: "https://x", Changed: true},
		}},
		"another key": {[]Hold{{Scopes: scopes.MustParseSet("x:a:write"), Audience: "https://x", Binding: provider.Binding{X5T: "c"}}}, hold("x:a:write", min), map[Field]Row{
			FieldBinding: {Now: "certificate c", Asked: "key k", Changed: true}, FieldTime: {Asked: "60 s", Changed: true},
		}},
	} {
		rows := Compare(c.now, c.asked)
		if len(rows) != 5 {
			t.Errorf("%s: %d rows", name, len(rows))
		}
		for _, r := range rows {
			want, told := c.want[r.Field]
			if want.Field = r.Field; told && r != want {
				t.Errorf("%s: %+v, want %+v", name, r, want)
			}
		}
	}
}

// A permission that the task does not have is always a changed permission.
func FuzzCompareHidesNothing(f *testing.F) {
	f.Add("x:a:read", "x:b:write", "x:a:write")
	f.Add("x:a/**:read", "x:a/1:write", "x:a/*:*")
	f.Fuzz(func(t *testing.T, one, two, asked string) {
		a, err1 := scopes.ParseSet(one)
		b, err2 := scopes.ParseSet(two)
		want, err3 := scopes.ParseSet(asked)
		if err1 != nil || err2 != nil || err3 != nil || want.Empty() || len(want.Providers()) != 1 {
			return // Compare is not called with this
		}
		now := []Hold{{Scopes: a}, {Scopes: b}}
		rows := Compare(now, Hold{Scopes: want})
		covered := true
		for _, s := range want.Scopes() {
			covered = covered && (a.CoversScope(s) || b.CoversScope(s))
		}
		if rows[0].Field != FieldPermission || rows[0].Changed == covered || rows[0].Asked == "" {
			t.Fatalf("%q now, %q asked: %+v", []string{one, two}, asked, rows[0])
		}
	})
}
