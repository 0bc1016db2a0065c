package scopes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/scopes"
)

func TestSetCanonical(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, want string }{
		{"", ""},
		{"b:x:r a:x:r", "a:x:r b:x:r"},
		{"a:x:r a:x:r", "a:x:r"},
		{"a:x:r a:*:r", "a:*:r"},
		{"a:x/y:r a:x:r a:**:*", "a:**:*"},
		{"a:x/**:r a:x:r", "a:x/**:r a:x:r"},
		{"a:x:r a:x:*", "a:x:*"},
		{"a:*/x:r a:x/*:r", "a:*/x:r a:x/*:r"},
	} {
		s, err := scopes.ParseSet(tc.in)
		if err != nil || s.String() != tc.want {
			t.Errorf("ParseSet(%q) = %q, %v; want %q", tc.in, s, err, tc.want)
		}
		members := s.Scopes()
		slices.Reverse(members)
		again, err := scopes.NewSet(members...)
		if err != nil || !again.Equal(s) || again.Len() != s.Len() || s.Empty() != (tc.want == "") {
			t.Errorf("%q: NewSet(Scopes()) = %q, %v", tc.in, again, err)
		}
	}
}

func TestParseSetRefuses(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("a:x%d:r", i))
		}
		return strings.Join(list, " ")
	}
	if s, err := scopes.ParseSet(many(64)); err != nil || s.Len() != 64 {
		t.Errorf("64 scopes: %v", err)
	}
	for _, tc := range []struct {
		text string
		pos  int
	}{
		{" ", 0}, {" a:b:c", 0}, {"a:b:c ", 6}, {"a:b:c  a:b:d", 6}, {"a:b:c\ta:b:d", 5}, {"a:b:c\na:b:d", 5},
		{"a:b:c,a:b:d", 5}, {"a:b:c a:b", 9}, {"a:b:c a:b*:d", 9},
		{many(64) + " a:x:r", len(many(64)) + 1},
		{strings.Repeat("a:b:c ", 64) + "a:b:c", 64 * 6}, // duplicates count: the cap is on work, not on the outcome
		{strings.Repeat("a", 40_000), 64*513 - 1},
	} {
		s, err := scopes.ParseSet(tc.text)
		perr, ok := errors.AsType[*scopes.ParseError](err)
		if !ok || !s.Empty() || perr.Pos != tc.pos || perr.What != "scope set" {
			t.Errorf("ParseSet(%.40q) = %q, %v; want refused at %d", tc.text, s, err, tc.pos)
		}
	}
	var list []scopes.Scope
	for i := range 65 {
		list = append(list, scopes.MustParse(fmt.Sprintf("a:x%d:r", i)))
	}
	if _, err := scopes.NewSet(list...); err == nil {
		t.Error("NewSet takes 65")
	}
	if s, err := scopes.NewSet(append(list, scopes.MustParse("a:*:r"))...); err != nil || s.Len() != 1 {
		t.Errorf("65 covered by one: %v", err)
	}
}

func TestSetCoversAndNarrow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b, meet   string
		aCoversB     bool
		bCoversA     bool
		providersOfA string
	}{
		{"", "", "", true, true, ""},
		{"a:x:r", "", "", true, false, "a"},
		{"a:**:* b:y:r", "a:x:r", "a:x:r", true, false, "a b"},
		{"a:x/**:r", "a:x:r", "", false, false, "a"},
		{"a:*/x:*", "a:x/*:r", "a:x/x:r", false, false, "a"},
		{"a:x/**:r", "a:*/y/**:*", "a:x/y/**:r", false, false, "a"},
		{"a:**:r", "a:*:w", "", false, false, "a"},
		{"a:x:r a:y:r", "a:*:r", "a:x:r a:y:r", false, true, "a"},
		{"a:x:r", "b:x:r", "", false, false, "a"},
		{"a:x/**:r", "a:*/*:r", "a:x/*:r", false, false, "a"},
	} {
		a, b := scopes.MustParseSet(tc.a), scopes.MustParseSet(tc.b)
		if got := a.Narrow(b).String(); got != tc.meet {
			t.Errorf("%q narrow %q = %q, want %q", a, b, got, tc.meet)
		}
		if !b.Narrow(a).Equal(a.Narrow(b)) {
			t.Errorf("narrow of %q and %q depends on the order", a, b)
		}
		if a.Covers(b) != tc.aCoversB || b.Covers(a) != tc.bCoversA {
			t.Errorf("%q, %q: covers %v %v", a, b, a.Covers(b), b.Covers(a))
		}
		if got := strings.Join(a.Providers(), " "); got != tc.providersOfA {
			t.Errorf("%q: providers %q", a, got)
		}
	}
}

func TestNarrowGivesUpSmaller(t *testing.T) {
	t.Parallel()
	var rows, columns []string
	for i := range 64 {
		rows = append(rows, fmt.Sprintf("a:r%d/*:x", i))
		columns = append(columns, fmt.Sprintf("a:*/c%d:x", i))
	}
	a, b := scopes.MustParseSet(strings.Join(rows, " ")), scopes.MustParseSet(strings.Join(columns, " "))
	if got := a.Narrow(b); !got.Empty() {
		t.Errorf("4096 meets gave %d members, want none", got.Len())
	}
	if got := a.Narrow(scopes.MustParseSet("a:*/c1:x")); got.Len() != 64 {
		t.Errorf("64 meets gave %d", got.Len())
	}
	long := strings.Repeat("x", 60)
	left := scopes.MustParse("p:" + strings.Repeat(long+"/", 8) + strings.Repeat("*/", 7) + "*:r")
	right := scopes.MustParse("p:" + strings.Repeat("*/", 8) + strings.Repeat(long+"/", 7) + long + ":r")
	if !left.Overlaps(right) {
		t.Error("the long patterns overlap")
	}
	l, _ := scopes.NewSet(left)
	r, _ := scopes.NewSet(right)
	if got := l.Narrow(r); !got.Empty() {
		t.Errorf("a meet over 512 bytes came back as %q", got)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	got, err := scopes.Merge(scopes.MustParseSet("a:x:r b:y:r"), scopes.Set{}, scopes.MustParseSet("a:*:r"))
	if err != nil || got.String() != "a:*:r b:y:r" {
		t.Errorf("got %q %v", got, err)
	}
}

func TestSetJSON(t *testing.T) {
	t.Parallel()
	type doc struct {
		Scope scopes.Set `json:"scope"`
	}
	for _, tc := range []struct{ text, want string }{
		{"", `{"scope":""}`},
		{"b:y:r a:x:r", `{"scope":"a:x:r b:y:r"}`},
	} {
		b, err := json.Marshal(doc{scopes.MustParseSet(tc.text)})
		if err != nil || string(b) != tc.want {
			t.Errorf("got %s %v, want %s", b, err, tc.want)
		}
		var back doc
		if err := json.Unmarshal(b, &back); err != nil || !back.Scope.Equal(scopes.MustParseSet(tc.text)) {
			t.Errorf("back: %v %v", back, err)
		}
	}
	var d doc
	for _, bad := range []string{`{"scope":" "}`, `{"scope":["a:b:c"]}`, `{"scope":1}`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil || !d.Scope.Empty() {
			t.Errorf("%s parsed", bad)
		}
	}
}

func TestSetIsImmutable(t *testing.T) {
	t.Parallel()
	list := []scopes.Scope{scopes.MustParse("b:x:r"), scopes.MustParse("a:x:r")}
	s, _ := scopes.NewSet(list...)
	list[0] = scopes.MustParse("c:x:r")
	s.Scopes()[0] = scopes.MustParse("d:x:r")
	if s.String() != "a:x:r b:x:r" {
		t.Errorf("got %q", s)
	}
}
