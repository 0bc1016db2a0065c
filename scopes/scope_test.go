package scopes_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/scopes"
)

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for _, text := range []string{
		"a:b:c", "orders:eu/42:read", "orders:*:read", "orders:**:*", "orders:eu/*/x/**:*",
		"a-1:A.b_c~d@e+f=g,h-i:read.only_x-1", "p:...:r", "p:.git:r", "p:" + long + ":r",
		"p:" + strings.Repeat("a/", 15) + "a:r", "p:" + strings.Repeat("a/", 15) + "**:r",
		strings.Repeat("p", 32) + ":a:" + strings.Repeat("r", 32),
	} {
		s, err := scopes.Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		rebuilt, err := scopes.New(s.Provider(), s.Resource(), s.Action())
		if s.String() != text || err != nil || rebuilt != s || strings.Join(s.Segments(), "/") != s.Resource() {
			t.Errorf("Parse(%q) = %q; parts %q %q %q, rebuilt %v %v", text, s, s.Provider(), s.Resource(), s.Action(), rebuilt, err)
		}
		if s.IsPattern() != strings.Contains(text, "*") || s.IsZero() {
			t.Errorf("%q: pattern %v zero %v", text, s.IsPattern(), s.IsZero())
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		pos  int
	}{
		{"", 0}, {":", 0}, {"a", 1}, {"a:", 2}, {"a:b", 3}, {"a:b:", 4}, {"a::c", 2}, {":b:c", 0},
		{"A:b:c", 0}, {"1:b:c", 0}, {"-:b:c", 0}, {"*:b:c", 0}, {"a_b:b:c", 1},
		{strings.Repeat("p", 33) + ":a:r", 32}, {"p:a:" + strings.Repeat("r", 33), 36},
		{"a:b:C", 4}, {"a:b:**", 4}, {"a:b:r*", 5}, {"a:b:c:d", 5}, {"a:b:c ", 5}, {" a:b:c", 0},
		{"a:/b:c", 2}, {"a:b/:c", 4}, {"a:b//c:d", 4}, {"a:.:c", 2}, {"a:..:c", 2}, {"a:b/../c:d", 4}, {"a:b/.:d", 4},
		{"a:b*:c", 3}, {"a:*b:c", 2}, {"a:***:c", 2}, {"a:**/b:c", 4}, {"a:b**:c", 3}, {"a:*/**/*:c", 6},
		{`a:b\c:d`, 3}, {"a:b%2fc:d", 3}, {"a:b\"c:d", 3}, {"a:b\x00c:d", 3}, {"a:b\x7f:d", 3}, {"a:ü:c", 2}, {"a:b\n:c", 3},
		{"a:b?c:d", 3}, {"a:b#c:d", 3}, {"а:b:c", 0}, // Cyrillic
		{"p:" + strings.Repeat("x", 65) + ":r", 2},
		{"p:" + strings.Repeat("a/", 16) + "a:r", 34},
		{"p:" + strings.Repeat(strings.Repeat("x", 64)+"/", 8) + "x:r", 512},
	} {
		s, err := scopes.Parse(tc.text)
		perr, ok := errors.AsType[*scopes.ParseError](err)
		if !ok || !s.IsZero() {
			t.Errorf("Parse(%q) = %q, %v; want refused", tc.text, s, err)
			continue
		}
		if perr.Pos != tc.pos {
			t.Errorf("Parse(%q): position %d, want %d (%v)", tc.text, perr.Pos, tc.pos, err)
		}
	}
}

func TestErrorsEchoLittle(t *testing.T) {
	t.Parallel()
	hostile := "a:b\x1b[31m\r\n\u202eü" + strings.Repeat("s", 9000) + ":c"
	_, errScope := scopes.Parse(hostile)
	_, errSet := scopes.ParseSet("a:b:c " + hostile[:400])
	_, errURI := scopes.ParseResource("https://" + hostile[:400])
	for _, err := range []error{errScope, errSet, errURI} {
		perr, ok := errors.AsType[*scopes.ParseError](err)
		if !ok {
			t.Fatalf("got %v", err)
		}
		if len(perr.Near) > 64 || len(err.Error()) > 400 {
			t.Errorf("echoes %d bytes, message %d", len(perr.Near), len(err.Error()))
		}
		for _, r := range err.Error() {
			if r < 0x20 || r > 0x7e {
				t.Errorf("%q echoes %q", err, r)
			}
		}
	}
}

func TestZeroScope(t *testing.T) {
	t.Parallel()
	var zero scopes.Scope
	all := scopes.MustParse("a:**:*")
	if zero.Covers(zero) || zero.Covers(all) || all.Covers(zero) || zero.Overlaps(all) || all.Overlaps(zero) || zero.Overlaps(zero) {
		t.Error("the zero Scope covers or is covered")
	}
	if zero.Provider()+zero.Resource()+zero.Action()+zero.String() != "" || zero.Segments() != nil || zero.IsPattern() || !zero.IsZero() {
		t.Error("the zero Scope has parts")
	}
	if _, err := json.Marshal(zero); err == nil {
		t.Error("the zero Scope marshals")
	}
	if _, err := scopes.NewSet(all, zero); err == nil {
		t.Error("the zero Scope joins a set")
	}
	var s scopes.Scope
	if err := json.Unmarshal([]byte(`""`), &s); err == nil {
		t.Error("empty text parses")
	}
}

func TestScopeJSON(t *testing.T) {
	t.Parallel()
	in := map[scopes.Scope]scopes.Scope{scopes.MustParse("a:b/*:r"): scopes.MustParse("a:b@c,d=e~:*")}
	b, err := json.Marshal(in)
	if want := `{"a:b/*:r":"a:b@c,d=e~:*"}`; err != nil || string(b) != want {
		t.Fatalf("got %s %v, want %s", b, err, want)
	}
	var out map[scopes.Scope]scopes.Scope
	if err := json.Unmarshal(b, &out); err != nil || out[scopes.MustParse("a:b/*:r")] != scopes.MustParse("a:b@c,d=e~:*") {
		t.Errorf("got %v %v", out, err)
	}
}
