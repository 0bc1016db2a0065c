package policy_test

import (
	"errors"
	"testing"

	"github.com/ebb-broker/ebb/scopes/policy"
)

// A loaded set answers every query, and never grants beyond it; a set that does not load names the
// line.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		policy.StarterSource(), goldenPolicies, "", "@id(\"x\")", "permit (principal, action, resource);",
		`@id("p") permit (principal, action, resource in Ebb::Resource::"a:x") when { !(resource.path like "a*") || [resource].contains(resource) };`,
		`@id("p") forbid (principal, action, resource) unless { if context has x then 1 else {"a": [2]} };`,
		`@id("p") permit (principal, action in [Ebb::Action::"r"], resource is Ebb::Resource in Ebb::Provider::"a") when { decimal("1.0").lessThan(decimal("2.0")) };`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := policy.Load(map[string][]byte{"fuzz.cedar": text})
		if err != nil {
			if le, ok := errors.AsType[*policy.LoadError](err); !ok || len(le.Problems) == 0 || set != nil {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, asked := range []string{"a:x:read", "a:x/**:read a:**:*", "a:*/y:r"} {
			q := query(asked)
			d, err := set.Decide(q)
			if err != nil && (!errors.Is(err, policy.ErrEvaluation) || d.Effect != policy.Deny) {
				t.Fatalf("%v %v", d, err)
			}
			if !q.Scopes.Covers(d.Scopes) || !q.Scopes.Covers(d.WouldAllow) || d.TTL > q.TTL {
				t.Fatalf("%s: %+v", asked, d)
			}
			if _, again := set.Explain(q); (again == nil) != (err == nil) {
				t.Fatalf("%s: decides with %v, explains with %v", asked, err, again)
			}
		}
	})
}

func FuzzRunTests(f *testing.F) {
	for _, seed := range []string{
		`- { name: n, query: { scopes: "a:x:read" }, want: { effect: deny } }`, "[]", "- name: a\n  query: &q {scopes: x}\n- query: *q",
		"- {<<: {name: x}}", "a: [", "- !!binary x", "? x", "---\n---", "! 0000",
	} {
		f.Add([]byte(seed))
	}
	set := policy.Starter()
	f.Fuzz(func(t *testing.T, text []byte) {
		report := policy.RunTests(set, map[string][]byte{"fuzz.test.yaml": text})
		if report.Passed+report.Failed != len(report.Results) || len(report.Results) == 0 {
			t.Fatalf("%+v", report)
		}
	})
}
