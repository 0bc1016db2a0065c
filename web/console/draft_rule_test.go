package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// An operator drafts from a request the rule that permits exactly it. The draft opens in a replay
// of past requests.
func TestDraftFromARequest(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Owner = `bo" || true }; permit (principal, action, resource); //\`
	r, _ := h.asks("orders:eu/1:write", "x", spec)
	ops := h.as(brokertest.Operator)
	page := ops.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "Draft a policy rule")
	a := ops.send(page, "/policy/drafts", nil)
	a.is(t, http.StatusSeeOther)
	to := a.Header.Get("Location")
	if !strings.HasSuffix(to, "/replay?days=7") {
		t.Fatalf("to %s", to)
	}
	ops.get(to).is(t, http.StatusOK, "Replay against a draft")
	drafts, err := h.Broker.PolicyDrafts(t.Context(), h.Principals[brokertest.Operator])
	if err != nil || len(drafts) != 1 {
		t.Fatal(len(drafts), err)
	}
	set, err := policyset.Check(drafts[0].Files)
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.Sheet()
	if err != nil {
		t.Fatal(err)
	}
	query := func(change func(*policy.Query)) policy.Effect {
		q := policy.Query{
			Sandbox: policy.Sandbox{ID: f.Sandbox.ID, Attestor: f.Sandbox.Attestor}, Task: policy.Task{ID: r.TaskID, Kind: spec.Kind, Owner: spec.Owner},
			Scopes: r.Scopes, TTL: r.TTL.Duration(), Binding: policy.BindingDPoP, Delivery: policy.DeliveryToken, Revocability: "instant",
		}
		if change != nil {
			change(&q)
		}
		d, err := set.Decide(q)
		if err != nil {
			t.Fatal(err)
		}
		return d.Effect
	}
	if got := query(nil); got != policy.Allow {
		t.Errorf("the same request: %v", got)
	}
	for name, change := range map[string]func(*policy.Query){
		"another owner":    func(q *policy.Query) { q.Task.Owner = "bo@example.com" },
		"another kind":     func(q *policy.Query) { q.Task.Kind = "deploy" },
		"another resource": func(q *policy.Query) { q.Scopes = scopes.MustParseSet("orders:eu/2:write") },
		"below it":         func(q *policy.Query) { q.Scopes = scopes.MustParseSet("orders:eu/1/x:write") },
		"another action":   func(q *policy.Query) { q.Scopes = scopes.MustParseSet("orders:eu/1:delete") },
		"a wildcard":       func(q *policy.Query) { q.Scopes = scopes.MustParseSet("orders:eu/*:write") },
		"another attestor": func(q *policy.Query) { q.Sandbox.Attestor = "oidc" },
		"untrusted data":   func(q *policy.Query) { q.Taint = []string{"web"} },
	} {
		if got := query(change); got == policy.Allow {
			t.Errorf("%s is permitted, too", name)
		}
	}
}

// The rule from a request that an approver narrowed permits only the approved part.
func TestDraftFromANarrowedRequest(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write orders:eu/2:write")
	yes := broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, Scopes: scopes.MustParseSet("orders:eu/1:write"), TTL: 60}
	if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Approver], r.ID, yes); err != nil {
		t.Fatal(err)
	}
	ops := h.as(brokertest.Operator)
	ops.send(ops.get("/policy"), "/policy/drafts", url.Values{"request[]": {r.ID}}).is(t, http.StatusSeeOther)
	drafts, err := h.Broker.PolicyDrafts(t.Context(), h.Principals[brokertest.Operator])
	if err != nil || len(drafts) != 1 {
		t.Fatal(len(drafts), err)
	}
	text := drafts[0].Files[len(drafts[0].Files)-1].Text
	if !strings.Contains(text, "eu/1") || strings.Contains(text, "eu/2") || !strings.Contains(text, `@max_ttl("60s")`) {
		t.Errorf("the rule permits more than was approved:\n%s", text)
	}
}

// Only operators draft rules, and only from requests that exist and have an exact rule.
func TestDraftFromARequestRefuses(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	for _, who := range []string{brokertest.Approver, brokertest.Auditor, brokertest.Runner} {
		b := h.as(who)
		if page := b.get("/requests/" + r.ID); strings.Contains(page.body, "Draft a policy rule") {
			t.Errorf("%s is offered a draft", who)
		}
		form := url.Values{"request[]": {r.ID}, "nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], "/policy/drafts")}}
		b.do(http.MethodPost, "/policy/drafts", form, nil).is(t, http.StatusForbidden)
	}
	ops := h.as(brokertest.Operator)
	wild := h.asked("orders:eu/*:write")
	if page := ops.get("/requests/" + wild.ID); strings.Contains(page.body, "Draft a policy rule") {
		t.Error("a draft for a wildcard is offered")
	}
	for name, ids := range map[string][]string{"a wildcard": {wild.ID}, "unknown": {"req_" + strings.Repeat("0", 32)}, "markup": {"<script>"}, "21": slicesOf(r.ID, 21)} {
		if a := ops.send(ops.get("/policy"), "/policy/drafts", url.Values{"request[]": ids}); a.StatusCode < 400 || a.StatusCode >= 500 {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	if drafts, err := h.Broker.PolicyDrafts(t.Context(), h.Principals[brokertest.Operator]); err != nil || len(drafts) != 0 {
		t.Errorf("%d drafts, %v", len(drafts), err)
	}
	if h.again(r.ID).State != broker.RequestPending {
		t.Error("a draft decided the request")
	}
}

func slicesOf(s string, n int) (out []string) {
	for range n {
		out = append(out, s)
	}
	return out
}
