package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// TestConditions is one permit each, judged on one concrete scope.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		head, when string // of the permit
		want       policy.Effect
	}{
		{`principal, action, resource`, ``, policy.Allow},
		{`principal == Ebb::Sandbox::"sbx_1", action, resource`, ``, policy.Allow},
		{`principal == Ebb::Sandbox::"sbx_2", action, resource`, ``, policy.Deny},
		{`principal in Ebb::Attestor::"github", action, resource`, ``, policy.Allow},
		{`principal in Ebb::Attestor::"gitlab", action, resource`, ``, policy.Deny},
		{`principal, action == Ebb::Action::"read", resource`, ``, policy.Allow},
		{`principal, action in [Ebb::Action::"list", Ebb::Action::"read"], resource`, ``, policy.Allow},
		{`principal, action == Ebb::Action::"reads", resource`, ``, policy.Deny},
		{`principal, action, resource == Ebb::Resource::"orders:eu/42"`, ``, policy.Allow},
		{`principal, action, resource == Ebb::Resource::"orders:eu"`, ``, policy.Deny},
		{`principal, action, resource in Ebb::Resource::"orders:eu/42"`, ``, policy.Allow},
		{`principal, action, resource in Ebb::Resource::"orders:eu"`, ``, policy.Allow},
		{`principal, action, resource in Ebb::Resource::"orders:e"`, ``, policy.Deny},
		{`principal, action, resource in Ebb::Resource::"orders:eu/4"`, ``, policy.Deny},
		{`principal, action, resource in Ebb::Resource::"orders:eu/42/7"`, ``, policy.Deny},
		{`principal, action, resource in Ebb::Resource::"order:eu"`, ``, policy.Deny},
		{`principal, action, resource in Ebb::Provider::"orders"`, ``, policy.Allow},
		{`principal, action, resource in Ebb::Provider::"files"`, ``, policy.Deny},
		{`principal, action, resource is Ebb::Resource in Ebb::Provider::"orders"`, ``, policy.Allow},
		{`principal, action, resource`, `resource.provider == "orders" && resource.path == "eu/42" && resource.depth == 2`, policy.Allow},
		{`principal, action, resource`, `resource.path like "eu/*"`, policy.Allow},
		{`principal, action, resource`, `principal.attestor == "github" && principal.evidence == "signed" && principal.subject like "repo:acme/*"`, policy.Allow},
		{`principal, action, resource`, `principal.hasTag("ref") && principal.getTag("ref") == "refs/heads/main"`, policy.Allow},
		{`principal, action, resource`, `principal.hasTag("a") && principal.getTag("a") == "b=c"`, policy.Deny},
		{`principal, action, resource`, `context.task == Ebb::Task::"tsk_1" && context.task.kind == "report" && context.task.owner == "ana" && context.task.name == "nightly"`, policy.Allow},
		{`principal, action, resource`, `context.task.age >= 90 && context.task.age < 91`, policy.Allow},
		{`principal, action, resource`, `context.task.hasTag("env") && context.task.getTag("env") == "prod"`, policy.Allow},
		{`principal, action, resource`, `context.tool == "psql" && context.ttl == 3600 && context.binding == "dpop" && context.delivery == "token"`, policy.Allow},
		{`principal, action, resource`, `context.record.denials == 2 && context.record.violations == 0`, policy.Allow},
		{`principal, action, resource`, `context.taint.contains("web") && !context.taint.contains("secret")`, policy.Allow},
		{`principal, action, resource`, `context.taint.containsAny(["secret", "mail"])`, policy.Allow},
		{`principal, action, resource`, `context.action like "re*" && !context.wildcard`, policy.Allow},
		{`principal, action, resource`, `context.action == "write"`, policy.Deny},
	} {
		text := `@id("p") permit (` + tc.head + `)`
		if tc.when != "" {
			text += ` when { ` + tc.when + ` }`
		}
		d := decide(t, load(t, text+";"), query("orders:eu/42:read"))
		if d.Effect != tc.want {
			t.Errorf("%s: %v, want %v", text, d.Effect, tc.want)
		}
	}
}

//ebb:invariant I6 A request that no policy permits is denied
func TestDecide(t *testing.T) {
	t.Parallel()
	const policies = `
		@id("read") @max_ttl("10m") permit (principal, action == Ebb::Action::"read", resource);
		@id("read-files") @max_ttl("30m") @deliver("egress") permit (principal, action == Ebb::Action::"read", resource in Ebb::Provider::"files");
		@id("list") permit (principal, action == Ebb::Action::"list", resource);
		@id("put") @deliver("egress") @max_ttl("2h") @why("Uploads leave through the proxy.") permit (principal, action == Ebb::Action::"put", resource);
		@id("write") @ask("dba, ops") @max_ttl("5m") @why("Writes need a database person.") permit (principal, action == Ebb::Action::"write", resource in Ebb::Provider::"orders");
		@id("write-eu") @ask("privacy") @quorum("2") permit (principal, action == Ebb::Action::"write", resource in Ebb::Resource::"orders:eu");
		@id("drop") @ask("dba") permit (principal, action == Ebb::Action::"drop", resource in Ebb::Provider::"orders");
		@id("no-prod") @why("Nobody drops prod.") forbid (principal, action == Ebb::Action::"drop", resource in Ebb::Resource::"orders:prod");
		@id("no-prod-too") forbid (principal, action == Ebb::Action::"drop", resource in Ebb::Resource::"orders:prod/db");
	`
	set := load(t, policies)
	for _, tc := range []struct {
		asked, effect, granted string
		ttl                    time.Duration
		ask, deliver           string
		rules, why             string
		wouldAllow, denied     string
	}{
		{"orders:x:read", "allow", "orders:x:read", 10 * time.Minute, "", "token", "read", "", "orders:x:read", ""},
		{"orders:x:list", "allow", "orders:x:list", time.Hour, "", "token", "list", "", "orders:x:list", ""},
		// two permits: the longer time; egress is not required, because one of them does not
		// require it
		{"files:x:read", "allow", "files:x:read", 30 * time.Minute, "", "token", "read read-files", "", "files:x:read", ""},
		{"files:x:put", "allow", "files:x:put", time.Hour, "", "egress", "put", "Uploads leave through the proxy.", "files:x:put", ""},
		{"files:x:put orders:x:read", "allow", "files:x:put orders:x:read", 10 * time.Minute, "", "egress", "put read", "Uploads leave through the proxy.", "files:x:put orders:x:read", ""},
		{"orders:us:write", "ask", "orders:us:write", 5 * time.Minute, "1 of dba ops; write:1:dba,ops", "token", "write", "Writes need a database person.", "", ""},
		{"orders:eu/1:write", "ask", "orders:eu/1:write", time.Hour, "2 of dba ops privacy; write:1:dba,ops write-eu:2:privacy", "token", "write write-eu", "Writes need a database person.", "", ""},
		{"orders:us:write orders:us:read orders:us:drop", "ask", "orders:us:drop orders:us:read orders:us:write", 5 * time.Minute, "1 of dba ops; drop:1:dba write:1:dba,ops", "token", "drop read write", "Writes need a database person.", "orders:us:read", ""},
		{"orders:prod/db:drop", "deny", "", 0, "", "", "no-prod no-prod-too", "Nobody drops prod.", "", "orders:prod/db:drop"},
		{"orders:prod:drop orders:x:read", "deny", "", 0, "", "", "no-prod", "Nobody drops prod.", "orders:x:read", "orders:prod:drop"},
		{"orders:x:grant", "deny", "", 0, "", "", "", "no policy permits orders:x:grant", "", "orders:x:grant"},
		{"orders:x:grant orders:x:write orders:x:read", "deny", "", 0, "", "", "", "no policy permits orders:x:grant", "orders:x:read", "orders:x:grant"},
		{"orders:x:*", "deny", "", 0, "", "", "", "no policy permits orders:x:*", "orders:x:list orders:x:put orders:x:read", "orders:x:*"},
	} {
		d := decide(t, set, query(tc.asked))
		ask := ""
		if d.Ask != nil {
			ask = fmt.Sprintf("%d of %s;", d.Ask.Quorum, words(d.Ask.Groups))
			for _, r := range d.Ask.Rules {
				ask += fmt.Sprintf(" %s:%d:%s", r.ID, r.Quorum, strings.Join(r.Groups, ","))
			}
		}
		got := []any{d.Effect.String(), d.Scopes.String(), d.TTL, ask, d.Deliver, words(d.Rules), strings.Join(d.Why, "|"), d.WouldAllow.String(), d.Denied.String()}
		want := []any{tc.effect, tc.granted, tc.ttl, tc.ask, tc.deliver, tc.rules, tc.why, tc.wouldAllow, tc.denied}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: #%d: got %q, want %q", tc.asked, i, got[i], want[i])
			}
		}
		if d.Version != set.Version() {
			t.Errorf("%s: version %q", tc.asked, d.Version)
		}
	}
}

func TestTTLIsCutToWholeSeconds(t *testing.T) {
	t.Parallel()
	q := query("a:x:r")
	q.TTL = 1999 * time.Millisecond
	if d := decide(t, load(t, `@id("p") permit (principal, action, resource);`), q); d.TTL != time.Second {
		t.Errorf("got %v", d.TTL)
	}
}

func TestAskedDeliveryIsKept(t *testing.T) {
	t.Parallel()
	q := query("a:x:r")
	q.Delivery = policy.DeliveryEgress
	if d := decide(t, load(t, `@id("p") permit (principal, action, resource);`), q); d.Deliver != policy.DeliveryEgress {
		t.Errorf("got %q", d.Deliver)
	}
}

//ebb:invariant I6 A request that no policy permits is denied
func TestNoPolicyDenies(t *testing.T) {
	t.Parallel()
	var none *policy.Set
	for _, set := range []*policy.Set{none, {}} {
		d := decide(t, set, query("a:x:r a:**:*"))
		if d.Effect != policy.Deny || !d.Scopes.Empty() || d.TTL != 0 || d.Version != "" || set.Len() != 0 {
			t.Errorf("got %+v", d)
		}
		if e, err := set.Explain(query("a:x:r")); err != nil || len(e.Scopes) != 1 || len(e.Scopes[0].Policies) != 0 {
			t.Errorf("explained %+v %v", e, err)
		}
	}
	if (policy.Decision{}).Effect != policy.Deny {
		t.Error("the zero Decision does not deny")
	}
}

func TestBadQuery(t *testing.T) {
	t.Parallel()
	set := load(t, `@id("p") permit (principal, action, resource);`)
	for name, spoil := range map[string]func(*policy.Query){
		"sandbox id":  func(q *policy.Query) { q.Sandbox.ID = "" },
		"attestor":    func(q *policy.Query) { q.Sandbox.Attestor = "" },
		"task id":     func(q *policy.Query) { q.Task.ID = "" },
		"age":         func(q *policy.Query) { q.Task.Age = -1 },
		"no scope":    func(q *policy.Query) { q.Scopes = scopes.Set{} },
		"no ttl":      func(q *policy.Query) { q.TTL = 0 },
		"short ttl":   func(q *policy.Query) { q.TTL = time.Second - 1 },
		"binding":     func(q *policy.Query) { q.Binding = "none" },
		"no binding":  func(q *policy.Query) { q.Binding = "" },
		"delivery":    func(q *policy.Query) { q.Delivery = "mail" },
		"no delivery": func(q *policy.Query) { q.Delivery = "" },
		"no class":    func(q *policy.Query) { q.Revocability = "" },
		"a class":     func(q *policy.Query) { q.Revocability = "Instant" },
		"no bound":    func(q *policy.Query) { q.Bound = 0 },
		"a bound":     func(q *policy.Query) { q.Revocability = policy.RevocableNever },
		"below one":   func(q *policy.Query) { q.Bound = -time.Second },
		"denials":     func(q *policy.Query) { q.Record.Denials = -1 },
		"violations":  func(q *policy.Query) { q.Record.Violations = -1 },
	} {
		q := query("a:x:r")
		spoil(&q)
		d, err := set.Decide(q)
		if !errors.Is(err, policy.ErrQuery) || d.Effect != policy.Deny {
			t.Errorf("%s: %v %v", name, d.Effect, err)
		}
		if _, err := set.Explain(q); !errors.Is(err, policy.ErrQuery) {
			t.Errorf("%s: explain: %v", name, err)
		}
	}
	_, err := set.Decide(policy.Query{})
	for _, fault := range []string{"sandbox id", "attestor", "task id", "no scope", "ttl", "binding", "delivery", "revocability"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("the empty query: %v does not name %s", err, fault)
		}
	}
}

// A policy that fails during its evaluation leaves the query undecided, with any other policies.
//
//ebb:invariant I6 A policy that cannot be evaluated causes an error instead of a decision
func TestEvaluationErrorFailsClosed(t *testing.T) {
	t.Parallel()
	const overflow = `context.ttl * 9223372036854775807 > 0`
	for name, broken := range map[string]string{
		"permit":        `@id("broken") permit (principal, action, resource) when { ` + overflow + ` };`,
		"forbid":        `@id("broken") forbid (principal, action, resource) when { ` + overflow + ` };`,
		"unless":        `@id("broken") forbid (principal, action, resource) unless { ` + overflow + ` };`,
		"before a path": `@id("broken") forbid (principal, action, resource) when { ` + overflow + ` } when { resource in Ebb::Resource::"b:x" };`,
		"beside a path": `@id("broken") forbid (principal, action, resource) when { resource.path like "x" || ` + overflow + ` };`,
		"after a path":  `@id("broken") forbid (principal, action, resource) when { if resource.path like "q" then true else ` + overflow + ` };`,
	} {
		set := load(t, broken+`@id("all") permit (principal, action, resource);`)
		for _, asked := range []string{"a:y:r", "a:**:r", "a:y:*"} {
			d, err := set.Decide(query(asked))
			if !errors.Is(err, policy.ErrEvaluation) || errors.Is(err, policy.ErrQuery) || d.Effect != policy.Deny {
				t.Errorf("%s, %s: %v, %v", name, asked, d.Effect, err)
			}
			if err != nil && !strings.Contains(err.Error(), "broken") {
				t.Errorf("%s: %v does not name the policy", name, err)
			}
			if _, err := set.Explain(query(asked)); !errors.Is(err, policy.ErrEvaluation) {
				t.Errorf("%s: explain: %v", name, err)
			}
		}
	}
	// A guard that is false keeps the rest from being evaluated, as in Cedar.
	set := load(t, `@id("guarded") forbid (principal, action, resource in Ebb::Provider::"b") when { `+overflow+` };
		@id("all") permit (principal, action, resource);`)
	for _, asked := range []string{"a:y:r", "a:**:*"} {
		if d := decide(t, set, query(asked)); d.Effect != policy.Allow {
			t.Errorf("%s: %v", asked, d.Effect)
		}
	}
}

func TestSatisfied(t *testing.T) {
	t.Parallel()
	d := decide(t, load(t, `
		@id("one") @ask("dba,ops") permit (principal, action == Ebb::Action::"w", resource);
		@id("two") @ask("privacy") @quorum("2") permit (principal, action == Ebb::Action::"x", resource);`), query("a:b:w a:b:x"))
	who := func(specs ...string) (list []policy.Approver) {
		for _, spec := range specs {
			name, groups, _ := strings.Cut(spec, ":")
			list = append(list, policy.Approver{Name: name, Groups: strings.Split(groups, ",")})
		}
		return list
	}
	for _, tc := range []struct {
		by   []policy.Approver
		want bool
	}{
		{nil, false},
		{who("ana:dba", "bo:privacy", "cy:privacy"), true},
		{who("ana:dba,privacy", "bo:privacy"), true},
		{who("ana:dba", "bo:ops"), false},              // two people, none of them of privacy
		{who("bo:privacy", "cy:privacy"), false},       // no member for the first rule
		{who("ana:ops", "bo:privacy"), false},          // one short
		{who("ana:dba,privacy", "ana:privacy"), false}, // the same person twice
		{who("ana:dba", "bo:privacy", ":privacy"), false},
		{who("ana:dba", "bo:privacyx", "cy:Privacy"), false},
	} {
		if got := d.Ask.Satisfied(tc.by); got != tc.want {
			t.Errorf("%v: %v", tc.by, got)
		}
	}
	var none *policy.Approval
	if none.Satisfied(who("ana:dba")) || (&policy.Approval{}).Satisfied(who("ana:dba")) {
		t.Error("no rule is satisfied")
	}
	zero := &policy.Approval{Rules: []policy.AskRule{{ID: "z", Groups: []string{"g"}}}}
	if zero.Satisfied(nil) || !zero.Satisfied(who("ana:g")) {
		t.Error("a quorum of zero is not one")
	}
}
