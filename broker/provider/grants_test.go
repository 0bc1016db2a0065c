package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

func TestGrants(t *testing.T) {
	t.Parallel()
	g := provider.Grants[int]{"a/b": {"read": 1, "run.it": 2}, "c": {"*": 3, "UP": 4}, "d*": {"read": 5}, "e": {}}
	var wrong []string
	sum := 0
	g.Check("p", func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }, func(_ string, v int) { sum += v })
	text := strings.Join(wrong, "\n")
	if sum != 15 || len(wrong) != 4 {
		t.Errorf("%d, %q", sum, wrong)
	}
	for _, want := range []string{"grants.c.*: it is not an action", "grants.c.UP: it is not an action", `grants: "d*" cannot`, "grants.e: name at least one action"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not among %q", want, wrong)
		}
	}
	for asked, want := range map[string]int{
		"p:a/b:read": 1, "p:a/b:run.it": 2,
		"p:a/b:write": 0, "p:a:read": 0, "p:a/b/c:read": 0, "p:a/*:read": 0, "p:**:read": 0, "p:c:*": 0, "p:a/b:read p:a/b:run.it": 0,
	} {
		v, err := g.One(scopes.MustParseSet(asked))
		if v != want || (err == nil) != (want > 0) || err != nil && !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s stands for %d, %v", asked, v, err)
		}
	}
	if _, err := g.One(scopes.Set{}); !errors.Is(err, provider.ErrUnsupported) {
		t.Errorf("no scope: %v", err)
	}
}

// TestEnclosing: the narrowest scope comes first, and a path segment from a sandbox's request never acts as a wildcard.
//
//ebb:invariant I2 An egress refusal suggests no scope in which a path segment sent by the sandbox acts as a wildcard
func TestEnclosing(t *testing.T) {
	t.Parallel()
	for place, want := range map[string]string{
		"a":       "p:a:read",
		"a/b/c":   "p:a/b/c:read p:a/b/**:read p:a/**:read",
		"a/b/":    "p:a/b/**:read p:a/**:read",
		"a/b c/d": "p:a/**:read",
		"a/*/c":   "p:a/**:read",
		"a/b/**":  "p:a/b/**:read p:a/**:read",
		"**/a":    "",
		"a:b/c":   "",
		"a/b:*":   "p:a/**:read",
	} {
		var got []string
		for _, s := range provider.Enclosing("p", strings.Split(place, "/"), "read") {
			got = append(got, s.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", place, got, want)
		}
	}
	for _, s := range provider.Enclosing("p", strings.Split(strings.Repeat("a/", 4000), "/"), "read") {
		if n := len(s.Segments()); n > scopes.MaxSegments {
			t.Errorf("%d segments", n)
		}
	}
}
