package core_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/scopes"
)

// TestUsage: uses through egress are reported beside issued credentials, to the people who may see
// them.
func TestUsage(t *testing.T) {
	t.Parallel()
	const api = "https://api.example.com/"
	x := attacked(t, brokertest.Config{
		Egress: true, Policies: map[string][]byte{"p.cedar": []byte(`@id("all") @why("all") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{"stripe": {Driver: injecting(t), Kind: "static", Resource: api}},
	})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:* orders:**:*")
	s := x.Open(t, spec)
	var ids []string
	for _, tool := range []string{"git", "git", "curl"} {
		r := s.Request(t, "stripe:charges:read")
		r.Tool = tool
		tok, err := x.Broker.Token(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, tok.LeaseID)
	}
	if _, err := x.Broker.Token(t.Context(), s.Request(t, "orders:eu/1:read")); err != nil {
		t.Fatal(err)
	}
	git := broker.Caller{TaskID: s.Task.ID, Tool: "git"}
	x.Clock.Add(time.Minute)
	for range 2 {
		u, err := x.Broker.Use(t.Context(), git, ids[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Broker.UseAllowed(t.Context(), git, u, broker.Exchange{Host: "api.example.com:443"}); err != nil {
			t.Fatal(err)
		}
	}
	used := x.Clock.Now().UTC().Truncate(time.Millisecond)
	// An entry about another lease, or a refused request, is no use of it.
	x.Broker.UseDenied(t.Context(), git, ids[2], broker.Exchange{Reason: "other"})
	says := func(want ...broker.GrantUsage) {
		t.Helper()
		got, err := x.Broker.Usage(t.Context(), x.who(brokertest.Auditor), time.Time{}, report.UsageByScope)
		if err != nil || got.HandedOut != 1 || got.More || got.Cut || !reflect.DeepEqual(got.Items, want) {
			t.Errorf("%+v, %v\nwant %+v", got, err, want)
		}
	}
	gits := broker.GrantUsage{Provider: "stripe", Scope: "stripe:charges:read", Tool: "git", Issued: 2, Used: 1, Uses: 2, LastUsed: used}
	curl := broker.GrantUsage{Provider: "stripe", Scope: "stripe:charges:read", Tool: "curl", Issued: 1}
	says(gits, curl)
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	says(gits, curl) // minutes ago
	x.Clock.Add(5 * time.Minute)
	gits.Unused, curl.Unused = 1, 1
	says(gits, curl)
}

// TestUsageAsked: permitted callers, and valid queries.
func TestUsageAsked(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	now := x.Clock.Now()
	for who, may := range map[string]bool{brokertest.Auditor: true, brokertest.Operator: true, brokertest.Approver: false, brokertest.Runner: false, brokertest.Viewer: false, brokertest.Server: false} {
		if _, err := x.Broker.Usage(t.Context(), x.who(who), time.Time{}, report.UsageByTask); (err == nil) != may {
			t.Errorf("%s: %v", who, err)
		}
	}
	for name, q := range map[string]struct {
		from time.Time
		by   broker.UsageBy
		ok   bool
	}{
		"a minute": {now.Add(-time.Minute), report.UsageByOwner, true}, "31 days": {now.Add(-31 * 24 * time.Hour), report.UsageByOwner, true},
		"longer": {now.Add(-31*24*time.Hour - 2*time.Minute), report.UsageByOwner, false}, "not yet": {now.Add(time.Minute), report.UsageByOwner, false},
		"by nothing": {now.Add(-time.Hour), "", false}, "by what is no column": {now.Add(-time.Hour), "rule; DROP TABLE leases", false},
	} {
		got, err := x.Broker.Usage(t.Context(), x.who(brokertest.Auditor), q.from, q.by)
		if q.ok && (err != nil || got.From.After(q.from) || q.from.Sub(got.From) >= time.Minute) || !q.ok && broker.AsError(err).Kind != broker.Invalid {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
