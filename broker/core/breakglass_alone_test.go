package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// alien is a driver that does not know what its scopes allow.
type alien struct{ provider.Driver }

func (alien) Describe(scopes.Scope) (provider.Effect, error) {
	return provider.Effect{}, fmt.Errorf("%w: what is that", provider.ErrUnsupported)
}

func (alien) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}}
}

func (alien) Check(scopes.Set) error { return nil }

// TestBreakGlassGivesNoMore: policy, the refusal of scopes that no driver describes, and the end of
// the period also hold for a person who approves alone.
//
//ebb:invariant I4 A grant that was approved under break-glass ends no later than the break-glass period
func TestBreakGlassGivesNoMore(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{
		Published: true, BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}}, Providers: map[string]broker.Provider{"up": {Driver: alien{}, Kind: "up", Resource: "https://up.test/"}},
	})
	ann, ctx := x.Principals[brokertest.Approver], t.Context()
	g := begun(t, x, brokertest.Approver)
	yes := func(r broker.Request) (broker.Request, error) {
		return x.Broker.Decide(ctx, ann, r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, BreakGlass: g.ID})
	}
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("up:**:* orders:**:*")
	if _, err := yes(waits(t, x, x.Open(t, spec), "up:a:frob")); kind(err) != broker.NotUnderstood {
		t.Errorf("not understood: %v", err)
	}
	if out, err := yes(waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write")); err != nil || out.GrantUntil.After(g.EndsAt) {
		t.Errorf("granted until %s, the period is over at %s: %v", out.GrantUntil, g.EndsAt, err)
	}
	x.Clock.Add(25 * time.Minute)
	late := x.Open(t, brokertest.Spec())
	out, err := yes(waits(t, x, late, "orders:eu/3:write"))
	if err != nil || !out.GrantUntil.Equal(g.EndsAt) {
		t.Errorf("granted until %s, the period is over at %s: %v", out.GrantUntil, g.EndsAt, err)
	}
	if token, err := late.Ask(t, "orders:eu/3:write"); err != nil || x.Clock.Now().Add(token.ExpiresIn.Duration()).After(g.EndsAt) {
		t.Errorf("a token for %s: %v", token.ExpiresIn.Duration(), err)
	}
	// Policy forbids it in the meantime: pending requests, and approved ones that are not minted
	// yet.
	spec = brokertest.Spec()
	spec.Owner = "else@example.com"
	waiting, granted := waits(t, x, x.Open(t, spec), "orders:eu/4:write"), x.Open(t, brokertest.Spec())
	if _, err := yes(waits(t, x, granted, "orders:eu/5:write")); err != nil {
		t.Fatal(err)
	}
	ops, ols := x.Principals[brokertest.Operator], x.Principals[brokertest.Operator2]
	draft, err := x.Broker.DraftPolicies(ctx, ops, "", cedarFiles(`@id("no") forbid (principal, action, resource);`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Broker.PublishPolicies(ctx, ols, draft.ID, draft.Digest(), broker.Verdict{}); err != nil {
		t.Fatal(err)
	}
	if _, err := yes(waiting); kind(err) != broker.Conflict {
		t.Errorf("what policy forbids: %v", err)
	}
	if _, err := granted.Ask(t, "orders:eu/5:write"); kind(err) != broker.Denied {
		t.Errorf("what policy forbids since: %v", err)
	}
}

// TestBreakGlassSees: a person who approves alone sees all pending requests, only during the
// period. The audit log has the end of the period and its cause.
func TestBreakGlassSees(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{BreakGlass: approval.BreakGlassConfig{People: []string{"out"}}, People: []broker.Principal{{ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}}}})
	r, out, ctx := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write"), x.Principals["out"], t.Context()
	sees := func() bool {
		got, err := x.Broker.Request(ctx, out, r.ID)
		list, lerr := x.Broker.Waiting(ctx, out, false, broker.WaitFilter{})
		if (err == nil) != (len(list.Requests) == 1) || lerr != nil {
			t.Errorf("%v, %d, %v", err, len(list.Requests), lerr)
		}
		return err == nil && got.Reason.Len() > 0
	}
	past := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/2:write")
	if _, err := x.Broker.Decide(ctx, x.Principals[brokertest.Approver], past.ID, broker.Verdict{Code: broker.NotNeeded, Note: "no"}); err != nil {
		t.Fatal(err)
	}
	if sees() {
		t.Error("before")
	}
	for cause, end := range map[string]func(broker.BreakGlass) error{
		"by_hand":    func(g broker.BreakGlass) error { _, err := x.Broker.EndBreakGlass(ctx, out, g.ID); return err },
		"signed_out": func(broker.BreakGlass) error { return x.Broker.LeaveBreakGlass(ctx, out) },
	} {
		g := begun(t, x, "out")
		if !sees() {
			t.Errorf("%s: not while it is open", cause)
		}
		if _, err := x.Broker.Request(ctx, out, past.ID); kind(err) != broker.NotFound {
			t.Errorf("%s: the ended period: %v", cause, err)
		}
		if err := end(g); err != nil || sees() {
			t.Errorf("%s: still, %v", cause, err)
		}
		said := ""
		for e, err := range x.Store.Entries(ctx, broker.EntryFilter{Kind: audit.BreakGlassEnded}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(e.Data), g.ID) {
				said += string(e.Data)
			}
		}
		if strings.Count(said, cause) != 1 {
			t.Errorf("%s: the record says %s", cause, said)
		}
	}
}
