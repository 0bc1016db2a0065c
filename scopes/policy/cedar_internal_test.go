package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go"

	"github.com/ebb-broker/ebb/scopes"
)

// TestCedarIsTheJudge compares Decide, which skips policies about other resources, with a plain
// Authorize over all of them, on many scopes and with the conditions that a policy can state in
// several ways.
func TestCedarIsTheJudge(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	i := 0
	for _, effect := range []string{"permit", "forbid"} {
		for _, action := range []string{"action", `action == Ebb::Action::"r"`, `action in [Ebb::Action::"r", Ebb::Action::"w"]`, `action in Ebb::Action::"w"`} {
			for _, resource := range []string{
				"resource", `resource == Ebb::Resource::"p:x"`, `resource in Ebb::Resource::"p:x/y"`, `resource in Ebb::Provider::"q"`,
				`resource is Ebb::Resource`, `resource is Ebb::Resource in Ebb::Resource::"p:x"`,
			} {
				for _, when := range []string{
					`resource != Ebb::Resource::"p:x/y/z"`, `resource in [Ebb::Resource::"q:x", Ebb::Resource::"p:x/y/z"]`,
					`!(Ebb::Resource::"q:x" == resource) || action != Ebb::Action::"r"`, `resource.path like "x/*" && context.action like "w*"`,
				} {
					fmt.Fprintf(&text, "@id(\"p%03d\") %s (principal, %s, %s) when { %s };\n", i, effect, action, resource, when)
					i++
				}
			}
		}
	}
	set, err := Load(map[string][]byte{"t.cedar": []byte(text.String())})
	if err != nil {
		t.Fatal(err)
	}
	matches := 0
	for _, s := range []string{"p:x:r", "p:x/y:r", "p:x/y:w", "p:x/y/z:r", "p:y:r", "p:y:w", "p:xx:r", "q:x:r", "q:x/y:o", "q:y:w", "z:x:r", "p:x/y/z/z/z:o"} {
		r := newRequest(Query{
			Sandbox: Sandbox{ID: "s", Attestor: "a"}, Task: Task{ID: "t"}, Scopes: scopes.MustParseSet(s), TTL: time.Minute,
			Binding: BindingDPoP, Delivery: DeliveryToken, Revocability: RevocableInstant,
		})
		r.aim(scopes.MustParse(s))
		for _, rule := range set.rules {
			// one at a time, because Cedar does not name the permits when a forbid matches
			_, diagnostic := cedar.Authorize(single{rule.policy}, r, r.cedar)
			want := len(diagnostic.Reasons) == 1
			matched, err := ruleList{rule}.matchConcrete(r)
			clauses, errClauses := r.matches(rule)
			if err != nil || errClauses != nil || len(diagnostic.Errors) > 0 {
				t.Fatal(err, errClauses, diagnostic.Errors)
			}
			if want && !r.reaches(rule) || want != (clauses == yes) || clauses == maybe || want != slices.Contains(matched, rule) {
				t.Errorf("%s on %s: Cedar says %v, clauses %v, reaches %v", rule.policy.MarshalCedar(), s, want, clauses, r.reaches(rule))
			}
			if want {
				matches++
			}
		}
	}
	if matches < 100 {
		t.Errorf("only %d matches: the test shows little", matches)
	}
}

// TestRelate compares the security rule of patterns with a listing of the scopes that the pattern
// matches.
func TestRelate(t *testing.T) {
	t.Parallel()
	var paths, patterns [][]string
	var grow func(into *[][]string, names []string, prefix []string, depth int)
	grow = func(into *[][]string, names []string, prefix []string, depth int) {
		for _, name := range names {
			path := append(slices.Clone(prefix), name)
			*into = append(*into, path)
			if depth > 1 && name != "**" {
				grow(into, names, path, depth-1)
			}
		}
	}
	grow(&paths, []string{"x", "y", "z"}, nil, 5)
	grow(&patterns, []string{"x", "y", "*", "**"}, nil, 3)
	var matches func(pattern, path []string) bool
	matches = func(pattern, path []string) bool {
		switch {
		case len(pattern) == 0 || len(path) == 0:
			return len(pattern) == len(path)
		case pattern[0] == "**":
			return true
		}
		return (pattern[0] == "*" || pattern[0] == path[0]) && matches(pattern[1:], path[1:])
	}
	for _, pattern := range patterns {
		meant := slices.DeleteFunc(slices.Clone(paths), func(path []string) bool { return !matches(pattern, path) })
		for _, target := range paths {
			if len(target) > 4 || slices.Contains(target, "z") {
				continue
			}
			for _, below := range []bool{false, true} {
				some, all := false, true
				for _, path := range meant {
					in := slices.Equal(path, target) || below && len(path) > len(target) && slices.Equal(path[:len(target)], target)
					some, all = some || in, all && in
				}
				want := maybe
				switch {
				case !some:
					want = no
				case all:
					want = yes
				}
				if got := relate("p", pattern, pathTarget(target), below); got != want {
					t.Fatalf("%v against %v, below %v: %v, want %v", pattern, target, below, got, want)
				}
				if relate("q", pattern, pathTarget(target), below) != no {
					t.Fatal("another provider is related")
				}
			}
		}
		if relate("p", pattern, target{provider: "p"}, true) != yes || relate("p", pattern, target{provider: "p"}, false) != no || relate("q", pattern, target{provider: "p"}, true) != no {
			t.Fatalf("%v against a provider", pattern)
		}
	}
}

func pathTarget(path []string) target { return target{provider: "p", path: path} }
