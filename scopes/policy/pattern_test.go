package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// TestHostilePatterns are requests by pattern against policies that permit something narrower.
func TestHostilePatterns(t *testing.T) {
	t.Parallel()
	permit := func(head, when string) string {
		return `@id("p") permit (` + head + `) when { ` + when + ` };`
	}
	const open = `@id("open") permit (principal, action, resource); `
	forbid := func(head, when string) string {
		return open + `@id("f") forbid (` + head + `) when { ` + when + ` };`
	}
	for _, tc := range []struct {
		policies, asked string
		want            policy.Effect
	}{
		// a permit for something narrower never grants the pattern
		{permit(`principal, action, resource == Ebb::Resource::"a:x"`, `true`), "a:*:r", policy.Deny},
		{permit(`principal, action, resource == Ebb::Resource::"a:x"`, `true`), "a:**:r", policy.Deny},
		{permit(`principal, action, resource == Ebb::Resource::"a:x"`, `true`), "a:x/**:r", policy.Deny},
		{permit(`principal, action, resource in Ebb::Resource::"a:x/y"`, `true`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource in Ebb::Resource::"a:x/y"`, `true`), "a:x/**:r", policy.Deny},
		{permit(`principal, action, resource in Ebb::Resource::"a:x/y"`, `true`), "a:*/y:r", policy.Deny},
		{permit(`principal, action, resource in Ebb::Resource::"a:x/y"`, `true`), "a:*/**:r", policy.Deny},
		{permit(`principal, action, resource in Ebb::Provider::"b"`, `true`), "a:**:r", policy.Deny},
		// nor do tricks with the text of the pattern
		{permit(`principal, action, resource`, `resource.path like "x/*"`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `resource.path like "x/\*"`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `resource.path like "*"`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `resource.path == "x/*"`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `resource.path == "**"`), "a:**:r", policy.Deny},
		{permit(`principal, action, resource`, `resource.path != "x/secret"`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `resource.depth == 2`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `resource.depth == 1`), "a:**:r", policy.Deny},
		{permit(`principal, action, resource`, `[resource.path].contains("x/*")`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `{"k": resource}.k != Ebb::Resource::"a:x/secret"`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `(if true then resource else resource) != Ebb::Resource::"a:x/secret"`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `(resource in Ebb::Resource::"a:x/secret") == false`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `resource != Ebb::Resource::"a:x/secret"`), "a:x/*:r", policy.Deny},
		{permit(`principal, action, resource`, `!(resource in Ebb::Resource::"a:x/secret")`), "a:x/**:r", policy.Deny},
		{permit(`principal, action, resource`, `!(resource in [Ebb::Resource::"a:q", Ebb::Resource::"a:x/secret"])`), "a:x/**:r", policy.Deny},
		{permit(`principal, action, resource`, `if resource in Ebb::Resource::"a:x/secret" then false else true`), "a:x/**:r", policy.Deny},
		{`@id("p") permit (principal, action, resource) unless { resource in Ebb::Resource::"a:x/secret" };`, "a:x/**:r", policy.Deny},
		// any action is more than the actions that are named
		{permit(`principal, action == Ebb::Action::"r", resource`, `true`), "a:x:*", policy.Deny},
		{permit(`principal, action in [Ebb::Action::"r"], resource`, `true`), "a:x:*", policy.Deny},
		{permit(`principal, action, resource`, `context.action == "*"`), "a:x:*", policy.Deny},
		{permit(`principal, action, resource`, `context.action like "*"`), "a:x:*", policy.Deny},
		{permit(`principal, action, resource`, `context.action != "drop"`), "a:x:*", policy.Deny},
		{permit(`principal, action, resource`, `action != Ebb::Action::"drop"`), "a:x:*", policy.Deny},
		{permit(`principal, action, resource`, `["r", "w"].contains(context.action)`), "a:x:*", policy.Deny},
		{permit(`principal, action, resource`, `(if true then context else context).action != "drop"`), "a:x:*", policy.Deny},
		// a forbid on any part forbids the pattern
		{forbid(`principal, action, resource in Ebb::Resource::"a:x/secret"`, `true`), "a:x/**:r", policy.Deny},
		{forbid(`principal, action, resource in Ebb::Resource::"a:x/secret"`, `true`), "a:x/*:r", policy.Deny},
		{forbid(`principal, action, resource in Ebb::Resource::"a:x/secret/deep"`, `true`), "a:x/**:r", policy.Deny},
		{forbid(`principal, action, resource == Ebb::Resource::"a:x/secret"`, `true`), "a:*/*:r", policy.Deny},
		{forbid(`principal, action, resource == Ebb::Resource::"a:x/secret"`, `true`), "a:**:r", policy.Deny},
		{forbid(`principal, action, resource`, `resource.path like "*secret*"`), "a:x/*:r", policy.Deny},
		{forbid(`principal, action, resource`, `resource.path == "x/secret"`), "a:x/*:r", policy.Deny},
		{forbid(`principal, action, resource`, `resource.depth > 3`), "a:x/**:r", policy.Deny},
		{forbid(`principal, action == Ebb::Action::"drop", resource`, `true`), "a:x:*", policy.Deny},
		{forbid(`principal, action, resource`, `context.action == "drop"`), "a:x:*", policy.Deny},
		{forbid(`principal, action == Ebb::Action::"drop", resource in Ebb::Resource::"a:x/secret"`, `true`), "a:x/**:*", policy.Deny},
		{forbid(`principal, action, resource`, `context.wildcard`), "a:x/*:r", policy.Deny},
		{open + `@id("f") forbid (principal, action, resource) unless { resource in Ebb::Resource::"a:x/y" };`, "a:x/*:r", policy.Deny},

		// a permit for all that the pattern matches is granted
		{permit(`principal, action, resource in Ebb::Resource::"a:x"`, `true`), "a:x/*:r", policy.Allow},
		{permit(`principal, action, resource in Ebb::Resource::"a:x"`, `true`), "a:x/**:*", policy.Allow},
		{permit(`principal, action, resource in Ebb::Resource::"a:x"`, `true`), "a:x/*/y/**:r", policy.Allow},
		{permit(`principal, action, resource in Ebb::Provider::"a"`, `true`), "a:**:*", policy.Allow},
		{permit(`principal, action, resource`, `resource in [Ebb::Provider::"b", Ebb::Provider::"a"]`), "a:**:*", policy.Allow},
		{permit(`principal, action, resource`, `resource is Ebb::Resource in Ebb::Resource::"a:x"`), "a:x/*:r", policy.Allow},
		{permit(`principal, action, resource`, `resource.provider == "a" && resource is Ebb::Resource`), "a:x/*:*", policy.Allow},
		{permit(`principal, action == Ebb::Action::"r", resource`, `context.action like "r*"`), "a:x/*:r", policy.Allow},
		{permit(`principal, action, resource`, `resource.path like "x/*" || context.ttl > 0`), "a:x/*:*", policy.Allow},
		// and a forbid elsewhere does not apply
		{forbid(`principal, action, resource in Ebb::Resource::"a:y"`, `true`), "a:x/**:*", policy.Allow},
		{forbid(`principal, action, resource in Ebb::Resource::"b:x"`, `true`), "a:**:*", policy.Allow},
		{forbid(`principal, action, resource in Ebb::Resource::"a:x/y/z"`, `true`), "a:x/*:r", policy.Allow},
		{forbid(`principal, action, resource == Ebb::Resource::"a:x"`, `true`), "a:x/**:r", policy.Allow},
		{forbid(`principal, action == Ebb::Action::"drop", resource`, `true`), "a:**:r", policy.Allow},
		{forbid(`principal, action, resource`, `resource.provider == "b" && resource.path like "*secret*"`), "a:**:r", policy.Allow},
		{forbid(`principal, action, resource in Ebb::Resource::"a:x"`, `resource.path == "x/secret" && context.record.violations > 0`), "a:x/**:r", policy.Allow},
	} {
		if d := decide(t, load(t, tc.policies), query(tc.asked)); d.Effect != tc.want {
			t.Errorf("%s\n  %s: %v, want %v", tc.policies, tc.asked, d.Effect, tc.want)
		}
	}
}

func TestSmallerYes(t *testing.T) {
	t.Parallel()
	set := load(t, `
		@id("eu") permit (principal, action in [Ebb::Action::"read", Ebb::Action::"list"], resource in Ebb::Resource::"orders:eu");
		@id("one") permit (principal, action == Ebb::Action::"write", resource == Ebb::Resource::"orders:us/7");
		@id("all") @ask("ops") permit (principal, action, resource);
		@id("no") forbid (principal, action, resource in Ebb::Resource::"orders:eu/secret");`)
	for _, tc := range []struct{ asked, effect, want string }{
		{"orders:**:read", "deny", "orders:eu:read"}, // below eu lies the secret
		{"orders:us/**:*", "ask", "orders:us/7:write"},
		{"orders:us/**:write files:x:read", "ask", "orders:us/7:write"},
		{"orders:eu/x:*", "ask", "orders:eu/x:list orders:eu/x:read"},
		{"orders:eu/x/**:*", "ask", "orders:eu/x/**:list orders:eu/x/**:read"},
		{"orders:*:read", "ask", "orders:eu:read"},
		{"files:**:*", "ask", ""},
	} {
		d := decide(t, set, query(tc.asked))
		if d.Effect.String() != tc.effect || d.WouldAllow.String() != tc.want {
			t.Errorf("%s: %v, would allow %q; want %s, %q", tc.asked, d.Effect, d.WouldAllow, tc.effect, tc.want)
		}
		if d.WouldAllow.Empty() {
			continue
		}
		if again := decide(t, set, query(d.WouldAllow.String())); again.Effect != policy.Allow {
			t.Errorf("%s: suggests %q, which is then %v", tc.asked, d.WouldAllow, again.Effect)
		}
	}
}

// drawCondition writes a Cedar condition about resource, action and context.
func drawCondition(t *rapid.T, depth int) string {
	if depth > 0 && rapid.IntRange(0, 2).Draw(t, "nest") > 0 {
		a, b := drawCondition(t, depth-1), drawCondition(t, depth-1)
		switch rapid.IntRange(0, 4).Draw(t, "operator") {
		case 0:
			return "(" + a + " && " + b + ")"
		case 1:
			return "(" + a + " || " + b + ")"
		case 2:
			return "!(" + a + ")"
		case 3:
			return "((" + a + ") == (" + b + "))"
		default:
			return "(if " + a + " then " + b + " else " + drawCondition(t, depth-1) + ")"
		}
	}
	return rapid.SampledFrom([]string{
		`resource in Ebb::Resource::"p:x"`, `resource in Ebb::Resource::"p:x/y"`, `resource in Ebb::Provider::"p"`,
		`resource in Ebb::Provider::"q"`, `resource in Ebb::Resource::"q:x"`, `resource == Ebb::Resource::"p:x"`,
		`resource != Ebb::Resource::"p:x/y"`, `Ebb::Resource::"p:y" == resource`,
		`resource in [Ebb::Resource::"p:x", Ebb::Resource::"p:y"]`, `resource is Ebb::Resource in Ebb::Resource::"p:x"`,
		`resource is Ebb::Resource`, `resource.path like "x/*"`, `resource.path like "*y"`, `resource.path == "x/y"`,
		`resource.depth == 2`, `resource.depth > 1`, `resource.provider == "p"`, `[resource].contains(Ebb::Resource::"p:x")`,
		`action == Ebb::Action::"r"`, `action != Ebb::Action::"w"`, `action in [Ebb::Action::"r", Ebb::Action::"w"]`,
		`context.action == "r"`, `context.action like "r*"`, `["r", "w"].contains(context.action)`,
		`context.ttl > 60`, `context.taint.contains("web")`, `context.record.violations > 0`,
	}).Draw(t, "atom")
}

func drawPolicies(t *rapid.T, prefix string) string {
	var b strings.Builder
	n := rapid.IntRange(1, 4).Draw(t, prefix+" policies")
	for i := range n {
		kind := rapid.SampledFrom([]string{
			"permit", "permit", `@max_ttl("10m") permit`, `@max_ttl("20m") @deliver("egress") permit`,
			`@ask("g") permit`, `@ask("h") @max_ttl("5m") permit`, "forbid",
		}).Draw(t, "kind")
		action := rapid.SampledFrom([]string{"action", "action", `action == Ebb::Action::"r"`}).Draw(t, "action")
		resource := rapid.SampledFrom([]string{"resource", "resource", `resource in Ebb::Resource::"p:x"`}).Draw(t, "resource")
		when := rapid.SampledFrom([]string{"when", "when", "unless"}).Draw(t, "when")
		fmt.Fprintf(&b, "@id(%q) %s (principal, %s, %s) %s { %s };\n", fmt.Sprint(prefix, i), kind, action, resource, when, drawCondition(t, 2))
	}
	return b.String()
}

func drawPattern(t *rapid.T) scopes.Scope {
	segments := rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "*"}), 1, 3).Draw(t, "path")
	if rapid.Bool().Draw(t, "rest") {
		segments[len(segments)-1] = "**"
	}
	return scopes.MustParse("p:" + strings.Join(segments, "/") + ":" + rapid.SampledFrom([]string{"r", "w", "*"}).Draw(t, "action"))
}

// concrete lists the scopes that a pattern matches, to a depth beyond the distinctions of the drawn
// policies.
func concrete(pattern scopes.Scope) (list []scopes.Scope) {
	paths := []string{"x", "y", "z"}
	for depth := 1; ; depth++ {
		var longer []string
		for _, path := range paths {
			for _, action := range []string{"r", "w", "o"} {
				if s := scopes.MustParse("p:" + path + ":" + action); pattern.Covers(s) {
					list = append(list, s)
				}
			}
			longer = append(longer, path+"/x", path+"/y", path+"/z")
		}
		if depth == 3 {
			return list
		}
		paths = longer
	}
}

// TestPatternsAreSound: if a pattern is granted, each scope that it matches is granted, for at
// least as long. If one of them is forbidden, the pattern is not granted.
func TestPatternsAreSound(t *testing.T) {
	t.Parallel()
	granted := 0
	rapid.Check(t, func(t *rapid.T) {
		text := drawPolicies(t, "p")
		set, err := policy.Load(map[string][]byte{"drawn.cedar": []byte(text)})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		pattern := drawPattern(t)
		whole, err := set.Decide(query(pattern.String()))
		if err != nil {
			t.Fatal(err)
		}
		if whole.Effect != policy.Deny {
			granted++
		}
		for _, s := range concrete(pattern) {
			one, err := set.Decide(query(s.String()))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case one.Effect < whole.Effect:
				t.Fatalf("%s\n%s: %v, but %s: %v", text, pattern, whole.Effect, s, one.Effect)
			case one.Effect == whole.Effect && one.Effect != policy.Deny && one.TTL < whole.TTL:
				t.Fatalf("%s\n%s: %v, but %s: %v", text, pattern, whole.TTL, s, one.TTL)
			case one.Effect == whole.Effect && whole.Deliver == policy.DeliveryToken && one.Deliver == policy.DeliveryEgress:
				t.Fatalf("%s\n%s by token, but %s by egress", text, pattern, s)
			}
		}
		if whole.WouldAllow.Empty() {
			return
		}
		if again, err := set.Decide(query(whole.WouldAllow.String())); err != nil || again.Effect != policy.Allow {
			t.Fatalf("%s\n%s suggests %s, which is %v, %v", text, pattern, whole.WouldAllow, again.Effect, err)
		}
	})
	if granted == 0 {
		t.Error("no pattern was ever granted: the test shows nothing")
	}
}

// TestClausesAgreeWithCedar compares the three-valued form with Cedar's own decision on concrete
// scopes.
func TestClausesAgreeWithCedar(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := drawPolicies(t, "p")
		set, err := policy.Load(map[string][]byte{"drawn.cedar": []byte(text)})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, s := range concrete(scopes.MustParse("p:**:*")) {
			e, err := set.Explain(query(s.String()))
			if err != nil {
				t.Fatal(err)
			}
			strongest := ""
			for _, v := range e.Scopes[0].Policies {
				if v.Matches == "maybe" || v.Decides && v.Matches != "yes" {
					t.Fatalf("%s\n%s: %+v", text, s, v)
				}
				if v.Matches == "yes" && (v.Effect == "forbid" || strongest != "forbid" && v.Effect == "permit" || strongest == "") {
					strongest = v.Effect
				}
			}
			want := map[string]policy.Effect{"": policy.Deny, "forbid": policy.Deny, "permit": policy.Allow, "ask": policy.Ask}[strongest]
			if e.Decision.Effect != want || e.Scopes[0].Effect != want {
				t.Fatalf("%s\n%s: Cedar says %v, the clauses %v", text, s, e.Decision.Effect, want)
			}
		}
	})
}

// TestMorePolicies: a further forbid never grants more, and a further permit never grants less.
func TestMorePolicies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := drawPolicies(t, "p")
		condition := drawCondition(t, 2)
		q := query("p:" + rapid.SampledFrom([]string{"x", "x/y", "*", "**", "x/**"}).Draw(t, "a") + ":r " + drawPattern(t).String())
		effect := func(extra string) policy.Decision {
			set, err := policy.Load(map[string][]byte{"drawn.cedar": []byte(text + extra)})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			d, err := set.Decide(q)
			if err != nil {
				t.Fatal(err)
			}
			if !q.Scopes.Covers(d.Scopes) || d.TTL > q.TTL || d.Effect != policy.Deny && !d.Scopes.Equal(q.Scopes) {
				t.Fatalf("%s\n%s: %+v", text, q.Scopes, d)
			}
			return d
		}
		before := effect("")
		forbidden := effect(`@id("more") forbid (principal, action, resource) when { ` + condition + ` };`)
		permitted := effect(`@id("more") permit (principal, action, resource) when { ` + condition + ` };`)
		asked := effect(`@id("more") @ask("g") permit (principal, action, resource) when { ` + condition + ` };`)
		switch {
		case forbidden.Effect > before.Effect, !before.WouldAllow.Covers(forbidden.WouldAllow):
			t.Fatalf("%s\nforbid when %s grants %s: %v -> %v", text, condition, q.Scopes, before.Effect, forbidden.Effect)
		case permitted.Effect < before.Effect, asked.Effect < before.Effect:
			t.Fatalf("%s\npermit when %s refuses %s", text, condition, q.Scopes)
		}
	})
}
