package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

func load(t testing.TB, text string) *policy.Set {
	t.Helper()
	set, err := policy.Load(map[string][]byte{"test.cedar": []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func query(asked string) policy.Query {
	return policy.Query{
		Sandbox: policy.Sandbox{
			ID: "sbx_1", Attestor: "github", Evidence: "signed", Subject: "repo:acme/web",
			Selectors: map[string]string{"ref": "refs/heads/main", "a=b": "c"},
		},
		Task: policy.Task{
			ID: "tsk_1", Kind: "report", Owner: "ana", Name: "nightly",
			Labels: map[string]string{"env": "prod"}, Age: 90 * time.Second,
		},
		Scopes: scopes.MustParseSet(asked), Tool: "psql", TTL: time.Hour,
		Binding: policy.BindingDPoP, Delivery: policy.DeliveryToken,
		Revocability: policy.RevocableEventual, Bound: time.Minute,
		Record: policy.Record{Denials: 2}, Taint: []string{"web", "mail"},
	}
}

func decide(t testing.TB, set *policy.Set, q policy.Query) policy.Decision {
	t.Helper()
	d, err := set.Decide(q)
	if err != nil {
		t.Fatalf("%s: %v", q.Scopes, err)
	}
	if !q.Scopes.Covers(d.Scopes) || !q.Scopes.Covers(d.WouldAllow) || !q.Scopes.Covers(d.Denied) {
		t.Fatalf("%s: the decision goes beyond the request: %+v", q.Scopes, d)
	}
	return d
}

func words(list []string) string { return strings.Join(list, " ") }
