package scopes_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebb-broker/ebb/scopes"
)

// Patterns use few names, so that they often overlap.
func drawScope(t *rapid.T, label string) scopes.Scope {
	segments := rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "*"}), 1, 4).Draw(t, label)
	if rapid.IntRange(0, 2).Draw(t, label+" tail") == 0 {
		segments[len(segments)-1] = "**"
	}
	provider := rapid.SampledFrom([]string{"p", "p", "p", "q"}).Draw(t, label+" provider")
	action := rapid.SampledFrom([]string{"r", "w", "*"}).Draw(t, label+" action")
	return scopes.MustParse(provider + ":" + strings.Join(segments, "/") + ":" + action)
}

func drawSet(t *rapid.T, label string) scopes.Set {
	n := rapid.IntRange(0, 4).Draw(t, label+" size")
	var members []scopes.Scope
	for range n {
		members = append(members, drawScope(t, label))
	}
	s, err := scopes.NewSet(members...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCoversIsAPartialOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawScope(t, "a"), drawScope(t, "b"), drawScope(t, "c")
		if !a.Covers(a) {
			t.Fatalf("%q does not cover itself", a)
		}
		if a.Covers(b) && b.Covers(a) && a != b {
			t.Fatalf("%q and %q cover each other", a, b)
		}
		if a.Covers(b) && b.Covers(c) && !a.Covers(c) {
			t.Fatalf("%q covers %q covers %q, not transitive", a, b, c)
		}
	})
}

func TestNarrowIsTheMeet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSet(t, "a"), drawSet(t, "b")
		met := a.Narrow(b)
		if !a.Covers(met) || !b.Covers(met) {
			t.Fatalf("%q narrow %q = %q widens", a, b, met)
		}
		if !met.Equal(b.Narrow(a)) || !a.Narrow(a).Equal(a) || !met.Narrow(a).Equal(met) {
			t.Fatalf("%q narrow %q = %q is not commutative or idempotent", a, b, met)
		}
		if c := drawScope(t, "c"); a.CoversScope(c) && b.CoversScope(c) && !met.CoversScope(c) {
			t.Fatalf("%q narrow %q = %q lost %q", a, b, met, c)
		}
		if a.Covers(b) && !met.Equal(b) {
			t.Fatalf("%q covers %q but narrows it to %q", a, b, met)
		}
		merged, err := scopes.Merge(a, b)
		if err != nil || !merged.Covers(a) || !merged.Covers(b) {
			t.Fatalf("merge of %q and %q: %q %v", a, b, merged, err)
		}
	})
}

func TestSetTextIsCanonical(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawSet(t, "a")
		back, err := scopes.ParseSet(a.String())
		if err != nil || !back.Equal(a) || back.String() != a.String() {
			t.Fatalf("%q came back as %q, %v", a, back, err)
		}
		members := a.Scopes()
		for i, m := range members {
			for j, n := range members {
				if i != j && m.Covers(n) {
					t.Fatalf("%q is not minimal", a)
				}
			}
		}
		again, err := scopes.SetOf(scopes.DetailsOf(a))
		if err != nil || !again.Equal(a) {
			t.Fatalf("%q through details: %q %v", a, again, err)
		}
	})
}

// The oracle does not use the algebra: it lists every concrete triple up to one segment more than
// any pattern has, with one name more than any pattern uses (so that "*" differs from a list of
// names), and matches by hand.
type triple struct {
	path   []string
	action string
}

func universe() []triple {
	var all []triple
	paths := [][]string{nil}
	for range 4 {
		var longer [][]string
		for _, p := range paths {
			for _, name := range []string{"x", "y", "z"} {
				longer = append(longer, append(p[:len(p):len(p)], name))
			}
		}
		paths = longer
		for _, p := range paths {
			for _, action := range []string{"r", "w", "o"} {
				all = append(all, triple{p, action})
			}
		}
	}
	return all
}

func matches(s scopes.Scope, c triple) bool {
	if s.Action() != "*" && s.Action() != c.action {
		return false
	}
	return matchPath(s.Segments(), c.path)
}

func matchPath(pattern, path []string) bool {
	switch {
	case len(pattern) == 0 || len(path) == 0:
		return len(pattern) == len(path)
	case pattern[0] == "**":
		return true
	case pattern[0] == "*" || pattern[0] == path[0]:
		return matchPath(pattern[1:], path[1:])
	}
	return false
}

func patterns(t *testing.T) []scopes.Scope {
	t.Helper()
	var all []scopes.Scope
	paths := []string{""}
	for range 3 {
		var longer []string
		for _, p := range paths {
			for _, segment := range []string{"x", "y", "*"} {
				longer = append(longer, p+segment+"/")
			}
			for _, action := range []string{"r", "w", "*"} {
				all = append(all, scopes.MustParse("p:"+p+"**:"+action))
			}
		}
		paths = longer
		for _, p := range paths {
			for _, action := range []string{"r", "w", "*"} {
				all = append(all, scopes.MustParse("p:"+strings.TrimSuffix(p, "/")+":"+action))
			}
		}
	}
	return all
}

func TestOracle(t *testing.T) {
	t.Parallel()
	all, list := universe(), patterns(t)
	// languages as bit sets, so that every pair of patterns can be compared
	languages := make([][]bool, len(list))
	for i, s := range list {
		languages[i] = make([]bool, len(all))
		for j, c := range all {
			languages[i][j] = matches(s, c)
		}
	}
	for i, a := range list {
		setA := scopes.MustParseSet(a.String())
		for j, b := range list {
			covers, overlaps := true, false
			both := make([]bool, len(all))
			for k := range all {
				both[k] = languages[i][k] && languages[j][k]
				covers = covers && (languages[i][k] || !languages[j][k])
				overlaps = overlaps || both[k]
			}
			if a.Covers(b) != covers || a.Overlaps(b) != overlaps {
				t.Fatalf("%q, %q: covers %v want %v, overlaps %v want %v", a, b, a.Covers(b), covers, a.Overlaps(b), overlaps)
			}
			met := setA.Narrow(scopes.MustParseSet(b.String()))
			if met.Len() > 1 || met.Empty() == overlaps {
				t.Fatalf("%q narrow %q = %q", a, b, met)
			}
			for k, c := range all {
				if got := !met.Empty() && matches(met.Scopes()[0], c); got != both[k] {
					t.Fatalf("%q narrow %q = %q: %v is %v", a, b, met, c, got)
				}
			}
		}
	}
}
