package policy_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ebb-broker/ebb/scopes/policy"
)

const goldenPolicies = `
	@id("read") @max_ttl("10m") permit (principal in Ebb::Attestor::"github", action == Ebb::Action::"read", resource)
	when { context.task.hasTag("env") && context.task.getTag("env") == "dev" && context.taint.isEmpty() };
	@id("write") @ask("dba,ops") @quorum("2") @deliver("egress") permit (principal, action == Ebb::Action::"write", resource);
	@id("lease") permit (principal, action == Ebb::Action::"lease", resource)
	when { context.revocability != "ttl-only" && context.revocation_bound <= 60 };`

func TestRunTests(t *testing.T) {
	t.Parallel()
	set := load(t, goldenPolicies)
	report := policy.RunTests(set, map[string][]byte{
		"b.test.yaml": []byte(`
- name: everything as decided
  query:
    scopes: "a:x:read"
    ttl: 1h
    tool: psql
    binding: mtls
    delivery: egress
    sandbox: { id: s, attestor: github, evidence: signed, subject: x, selectors: { ref: main } }
    task: { id: t, kind: k, owner: o, name: n, labels: { env: dev }, age: 10m }
    record: { denials: 1, violations: 1 }
    taint: []
  want: { effect: allow, scopes: "a:x:read", ttl: 600s, deliver: egress, rules: [read], would_allow: "a:x:read", denied: "" }
- name: asks
  query: { scopes: "a:x:write" }
  want: { effect: ask, ask: { groups: [ops, dba], quorum: 2 }, deliver: egress, would_allow: "" }
- name: what cannot be taken back in time
  query: { scopes: "a:x:lease", revocability: eventual, revocation_bound: 61s }
  want: { effect: deny }
- name: what can
  query: { scopes: "a:x:lease", revocability: eventual, revocation_bound: 1m }
  want: { effect: allow }
- name: at once, unless said
  query: { scopes: "a:x:lease" }
  want: { effect: allow }
- name: wrong in every way
  query: { scopes: "a:x:write" }
  want: { effect: allow, scopes: "a:y:write", ttl: 1m, ask: { groups: [dba] }, deliver: token, rules: [], would_allow: "a:x:write", denied: "a:x:write" }
- name: wrong ask of nobody
  query: { scopes: "a:x:read" }
  want: { effect: deny, ask: { groups: [dba] } }
`),
		"a.test.yaml": []byte(`- { name: denied, query: { scopes: "a:x:read a:y:drop" }, want: { effect: deny, rules: [], denied: "a:x:read a:y:drop" } }`),
	})
	if report.Passed != 6 || report.Failed != 2 || report.OK() || report.Results[0].File != "a.test.yaml" {
		t.Fatalf("got %+v", report)
	}
	if diff := report.Results[6].Diff; len(diff) != 8 {
		t.Errorf("got %d differences: %q", len(diff), diff)
	}
	if diff := report.Results[7].Diff; len(diff) != 1 || !strings.Contains(diff[0], "nobody") {
		t.Errorf("got %q", diff)
	}
}

func TestRunTestsRefuses(t *testing.T) {
	t.Parallel()
	set := load(t, goldenPolicies)
	const ok = `{ name: n, query: { scopes: "a:x:read" }, want: { effect: deny } }`
	if r := policy.RunTests(set, map[string][]byte{"x": []byte("- " + ok)}); !r.OK() {
		t.Fatalf("the good one fails: %+v", r)
	}
	for name, text := range map[string]string{
		"empty":             "",
		"empty list":        "[]",
		"not a list":        ok,
		"scalar":            "x",
		"unknown member":    "- " + strings.Replace(ok, "name: n", "name: n, nmae: m", 1),
		"unknown in query":  "- " + strings.Replace(ok, "scopes:", "scope: x, scopes:", 1),
		"unknown in want":   "- " + strings.Replace(ok, "effect:", "efect: x, effect:", 1),
		"duplicate member":  "- " + strings.Replace(ok, "effect: deny", "effect: deny, effect: allow", 1),
		"no name":           "- " + strings.Replace(ok, "name: n, ", "", 1),
		"same name":         "- " + ok + "\n- " + ok,
		"no scopes":         "- " + strings.Replace(ok, `scopes: "a:x:read"`, "", 1),
		"bad scopes":        "- " + strings.Replace(ok, "a:x:read", "a:x", 1),
		"no effect":         "- " + strings.Replace(ok, "effect: deny", "", 1),
		"bad effect":        "- " + strings.Replace(ok, "effect: deny", "effect: no", 1),
		"bad ttl":           "- " + strings.Replace(ok, "scopes:", "ttl: 10, scopes:", 1),
		"bad age":           "- " + strings.Replace(ok, "scopes:", "task: {age: old}, scopes:", 1),
		"bad binding":       "- " + strings.Replace(ok, "scopes:", "binding: rope, scopes:", 1),
		"bad wanted ttl":    "- " + strings.Replace(ok, "effect: deny", "effect: deny, ttl: x", 1),
		"bad wanted scopes": "- " + strings.Replace(ok, "effect: deny", "effect: deny, denied: x", 1),
		"two documents":     "- " + ok + "\n---\n- " + ok,
		"second is broken":  "- " + ok + "\n---\n{",
		"too long":          "- " + ok + "\n" + strings.Repeat("#", 256<<10),
	} {
		report := policy.RunTests(set, map[string][]byte{"x.test.yaml": []byte(text)})
		if report.OK() || report.Failed == 0 {
			t.Errorf("%s: %+v", name, report)
		}
	}
	if policy.RunTests(set, nil).OK() {
		t.Error("no test at all is a pass")
	}
}

func TestTestFiles(t *testing.T) {
	t.Parallel()
	files, err := policy.TestFiles(fstest.MapFS{"a.test.yaml": {Data: []byte("x")}, "b.yaml": {}, "c.cedar": {}})
	if err != nil || len(files) != 1 || string(files["a.test.yaml"]) != "x" {
		t.Errorf("%v %v", files, err)
	}
	if _, err := policy.TestFiles(fstest.MapFS{"a.test.yaml/x": {}}); err == nil {
		t.Error("a directory reads")
	}
}
