package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// The widest @max_amount of permits of which each suffices counts, and the narrowest of the scopes of
// a request. A limited credential stays in ebb.
func TestMaxAmount(t *testing.T) {
	t.Parallel()
	set := load(t, `
@id("a") @max_amount("EUR 50, mails 3") permit (principal, action == Ebb::Action::"pay", resource in Ebb::Resource::"shop:a");
@id("b") @max_amount("EUR 20, USD 10") permit (principal, action == Ebb::Action::"pay", resource in Ebb::Resource::"shop:a/b");
@id("c") @max_amount("mails 9") permit (principal, action == Ebb::Action::"pay", resource in Ebb::Resource::"shop:c");
@id("d") permit (principal, action == Ebb::Action::"pay", resource in Ebb::Resource::"shop:d");
@id("e") @max_amount("EUR 1") permit (principal, action == Ebb::Action::"pay", resource in Ebb::Resource::"shop:d/e");
@id("f") @ask("leads") @max_amount("EUR 7") permit (principal, action == Ebb::Action::"pay", resource in Ebb::Resource::"shop:f");`)
	for asked, want := range map[string]string{
		"shop:a:pay": "EUR 50, mails 3", "shop:a/b:pay": "EUR 50, USD 10, mails 3", "shop:a:pay shop:c:pay": "mails 3", "shop:a/b:pay shop:f:pay": "EUR 7",
		"shop:c:pay shop:f:pay": "nothing", "shop:d:pay": "", "shop:d/e:pay": "", "shop:a:pay shop:d:pay": "EUR 50, mails 3", "shop:x:pay": "", "shop:a:pay shop:x:pay": "",
	} {
		d := decide(t, set, query(asked))
		if d.MaxAmount.String() != want || (d.Deliver == policy.DeliveryEgress) != (want != "") {
			t.Errorf("%s: %q, delivered by %s; want %q", asked, d.MaxAmount, d.Deliver, want)
		}
		text, err := json.Marshal(d)
		var back policy.Decision
		if err != nil || json.Unmarshal(text, &back) != nil || back.MaxAmount.String() != want {
			t.Errorf("%s: %s is read as %q, %v", asked, text, back.MaxAmount, err)
		}
	}
}

// A policy decides by what the one request does, whatever the scopes are.
func TestContent(t *testing.T) {
	t.Parallel()
	set := load(t, `
@id("open") permit (principal, action, resource) when { context.content.kind == "" };
@id("small") permit (principal, action, resource)
when { context.content.kind == "json" && context.content.unit == "EUR" && context.content.amount.lessThanOrEqual(decimal("50.0")) };
@id("reads") permit (principal, action, resource) when { context.content.kind == "graphql" && context.content.actions == ["query"] };
@id("main") forbid (principal, action, resource) when { context.content.objects.contains("refs/heads/main") };`)
	euro := func(text string) amount.Amount {
		a, err := amount.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, tt := range []struct {
		about policy.Content
		want  policy.Effect
	}{
		{policy.Content{}, policy.Allow}, {policy.Content{Kind: "json", Amount: euro("EUR 50")}, policy.Allow}, {policy.Content{Kind: "json", Amount: euro("EUR 50.0001")}, policy.Deny},
		{policy.Content{Kind: "json", Amount: euro("USD 1")}, policy.Deny}, {policy.Content{Kind: "json"}, policy.Deny}, {policy.Content{Kind: "json", Amount: amount.Amount{Unit: "EUR", Value: amount.Max}}, policy.Deny},
		{policy.Content{Kind: "graphql", Actions: []string{"query"}}, policy.Allow}, {policy.Content{Kind: "graphql", Actions: []string{"mutation", "query"}}, policy.Deny},
		{policy.Content{Kind: "graphql", Actions: []string{"query"}, Objects: []string{"a", "refs/heads/main"}}, policy.Deny},
	} {
		for _, asked := range []string{"shop:a:pay", "shop:**:*"} {
			q := query(asked)
			q.Content = tt.about
			if d := decide(t, set, q); d.Effect != tt.want {
				t.Errorf("%s of %+v: %s by %v; want %s", asked, tt.about, d.Effect, d.Rules, tt.want)
			}
			text, err := json.Marshal(q)
			var back policy.Query
			if err != nil || json.Unmarshal(text, &back) != nil || back.Content.Kind != tt.about.Kind || back.Content.Amount != tt.about.Amount {
				t.Errorf("%s is read as %+v, %v", text, back.Content, err)
			}
		}
	}
	q := query("shop:a:pay")
	q.Content.Amount = euro("EUR 1")
	if _, err := set.Decide(q); err == nil {
		t.Error("an amount without a kind is no fault")
	}
}

// Draft reviews and replays see the limits.
func TestMaxAmountDiffers(t *testing.T) {
	t.Parallel()
	limits := func(text string) policy.Decision {
		l, err := amount.ParseLimits(text)
		if err != nil {
			t.Fatal(err)
		}
		return policy.Decision{Effect: policy.Allow, TTL: 1, Deliver: policy.DeliveryEgress, MaxAmount: l}
	}
	for _, tt := range []struct {
		was, now string
		wider    bool
	}{
		{"EUR 5", "EUR 6", true}, {"EUR 5", "", true}, {"EUR 5", "EUR 5, USD 1", true}, {"nothing", "EUR 1", true},
		{"EUR 5", "EUR 4", false}, {"", "EUR 5", false}, {"EUR 5, USD 1", "EUR 5", false}, {"EUR 5", "nothing", false}, {"EUR 5", "EUR 5", false}, {"", "", false},
	} {
		was, now := limits(tt.was), limits(tt.now)
		if got := policy.Wider(was, now); got != tt.wider {
			t.Errorf("%q to %q: wider is %t", tt.was, tt.now, got)
		}
		if diff := strings.Join(policy.Differences(was, now), " "); (diff == "") != (tt.was == tt.now) || diff != "" && !strings.HasPrefix(diff, "Could spend at most ") {
			t.Errorf("%q to %q: %s", tt.was, tt.now, diff)
		}
	}
}

func TestWrongMaxAmount(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "50", "EUR", "EUR 5, EUR 6", "EUR -1", "nothing", "EUR 5;USD 6", "euro  5"} {
		if _, err := policy.Load(map[string][]byte{"a.cedar": []byte(`@id("a") @max_amount("` + text + `") permit (principal, action, resource);`)}); err == nil || !strings.Contains(err.Error(), "EUR 50") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := policy.Load(map[string][]byte{"a.cedar": []byte(`@id("a") @max_amount("EUR 5") forbid (principal, action, resource);`)}); err == nil {
		t.Error("a forbid takes @max_amount")
	}
}
