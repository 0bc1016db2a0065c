package core_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// TestBreakGlassWhoBegins: named people, and no program.
//
//ebb:invariant I6 A person whom the configuration does not name for break-glass cannot begin a break-glass period
//ebb:invariant I6 A principal that opens tasks or checks tokens cannot begin break-glass, even if its token or sign-in link omits that role
func TestBreakGlassWhoBegins(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	for who, want := range map[string]broker.Kind{
		"gil": "", brokertest.Approver: "", "prog": broker.Forbidden, brokertest.Runner: broker.Forbidden, brokertest.Server: broker.Forbidden, brokertest.Auditor: broker.Forbidden,
		brokertest.Viewer: broker.Forbidden, "norole": broker.Forbidden, brokertest.Operator: broker.Forbidden, "nobody": broker.Unauthenticated,
	} {
		if _, err := begin(t, x, who); kind(err) != want {
			t.Errorf("%s: %v", who, err)
		}
	}
	for _, bad := range [][2]string{{"", why}, {"INC 7", why}, {"<b>", why}, {strings.Repeat("a", 65), why}, {"INC-7", "short"}, {"INC-7", why + "\u202e"}, {"INC-7", strings.Repeat("a", 501)}} {
		if _, _, err := x.Broker.PlanBreakGlass(x.Principals[brokertest.Second], bad[0], bad[1]); kind(err) != broker.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	narrowed := x.Principals["prog"]
	narrowed.Roles = []broker.Role{broker.RoleOperator} // as a token or link can make them
	other := broker.Principal{ID: "sso:1", Also: []string{"prog"}, Roles: narrowed.Roles, Groups: []string{"approvers"}}
	for _, who := range []broker.Principal{narrowed, other} {
		if _, _, err := x.Broker.PlanBreakGlass(who, "INC-7", why); kind(err) != broker.Forbidden {
			t.Errorf("%s, a runner without that role: %v", who.ID, err)
		}
	}
	off := brokertest.New(t, brokertest.Config{})
	if _, err := begin(t, off, brokertest.Approver); kind(err) != broker.Forbidden {
		t.Errorf("not set up: %v", err)
	}
}

// TestBreakGlassAlone: under a period one approval replaces all approvals that policy requires, and
// the audit log says so; without a period nothing changes.
//
//ebb:invariant I4 No credential is minted under a break-glass approval after the break-glass period has ended
//ebb:invariant I7 A person cannot approve requests of their own task alone in a break-glass period, or use another person's period
//ebb:invariant I11 An approval under a break-glass period is recorded in the audit log with the id of that period
func TestBreakGlassAlone(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	s := x.Open(t, brokertest.Spec())
	r := waits(t, x, s, "orders:eu/**:write")
	gil, ann, ctx := x.Principals["gil"], x.Principals[brokertest.Approver], t.Context()
	yes := func(who broker.Principal, glass string) (broker.Request, error) {
		return x.Broker.Decide(ctx, who, r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, BreakGlass: glass})
	}
	if out, err := yes(ann, ""); err != nil || out.State != broker.RequestPending || r.Quorum != 2 {
		t.Fatal(out.State, r.Quorum, err)
	}
	g := begun(t, x, "gil")
	for name, c := range map[string]struct {
		who   broker.Principal
		glass string
	}{"an approver": {ann, g.ID}, "none": {gil, ""}, "unknown": {gil, "brk_" + strings.Repeat("0", 32)}, "no id": {gil, "x"}, "an auditor": {x.Principals[brokertest.Auditor], g.ID}} {
		if _, err := yes(c.who, c.glass); kind(err) != broker.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := x.Broker.Decide(ctx, gil, r.ID, broker.Verdict{Code: broker.NotNeeded, BreakGlass: g.ID}); kind(err) != broker.Invalid {
		t.Errorf("a no: %v", err)
	}
	if _, err := x.Broker.Decide(ctx, gil, r.ID, broker.Verdict{Approve: true, Digest: strings.Repeat("0", 64), BreakGlass: g.ID}); kind(err) != broker.Conflict {
		t.Errorf("other facts: %v", err)
	}
	// gil owns this one, under another name.
	spec := brokertest.Spec()
	spec.Owner = "GIL@example.com"
	own := waits(t, x, x.Open(t, spec), "orders:eu/1:write")
	if _, err := x.Broker.Decide(ctx, gil, own.ID, broker.Verdict{Approve: true, Digest: own.Digest, Target: own.Target(), Present: true, BreakGlass: g.ID}); kind(err) != broker.Forbidden {
		t.Errorf("their own task: %v", err)
	}
	out, err := yes(gil, g.ID)
	if err != nil || out.State != broker.RequestApproved || out.Votes[1].BreakGlass != g.ID {
		t.Fatalf("%+v, %v", out.State, err)
	}
	n := 0
	for e, err := range x.Store.Entries(ctx, broker.EntryFilter{Kind: audit.BreakGlassUsed}) {
		if err != nil || e.RequestID != r.ID || e.Actor != "gil" || !strings.Contains(string(e.Data), g.ID) {
			t.Errorf("%+v, %v", e, err)
		}
		n++
	}
	gs, err := x.Broker.BreakGlasses(ctx, x.Principals[brokertest.Auditor], broker.BreakGlassFilter{})
	if n != 1 || err != nil || len(gs) != 1 || gs[0].Used != 1 {
		t.Errorf("%d entries, %+v, %v", n, gs, err)
	}
	if _, err := s.Ask(t, "orders:eu/1:write"); err != nil {
		t.Errorf("the grant approved alone does not serve: %v", err)
	}
	if _, err := x.Broker.EndBreakGlass(ctx, gil, g.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ask(t, "orders:eu/2:write"); kind(err) != broker.AskRequired {
		t.Errorf("after its end: %v", err)
	}
}

// TestBreakGlassOver: a period that has ended by time, by hand, by use, or by a clock that goes
// back, permits no approval.
func TestBreakGlassOver(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(*brokertest.Env, broker.BreakGlass){
		"time": func(x *brokertest.Env, _ broker.BreakGlass) { x.Clock.Add(30 * time.Minute) },
		"role": func(x *brokertest.Env, _ broker.BreakGlass) {
			p := x.Principals["gil"]
			p.Roles = []broker.Role{broker.RoleOperator, broker.RoleRunner}
			_, _ = x.Broker.BreakGlassNow(context.Background(), p) // an ended period does not reopen with the role
		},
		"signed out": func(x *brokertest.Env, _ broker.BreakGlass) {
			_ = x.Broker.LeaveBreakGlass(context.Background(), x.Principals["gil"])
		},
		"hand": func(x *brokertest.Env, g broker.BreakGlass) {
			_, _ = x.Broker.EndBreakGlass(context.Background(), x.Principals["gil"], g.ID)
		},
		"clock": func(x *brokertest.Env, _ broker.BreakGlass) { x.Clock.Add(-time.Hour) },
	} {
		x := glassHouse(t)
		g := begun(t, x, "gil")
		if name == "time" {
			x.Clock.Add(time.Minute)
		}
		r := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write")
		over(x, g)
		if _, err := x.Broker.Decide(t.Context(), x.Principals["gil"], r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, BreakGlass: g.ID}); kind(err) != broker.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	x := glassHouse(t)
	g := begun(t, x, "gil")
	for i := range 3 {
		r := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write")
		_, err := x.Broker.Decide(t.Context(), x.Principals["gil"], r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, BreakGlass: g.ID})
		if want := map[bool]broker.Kind{true: broker.Forbidden}[i == 2]; kind(err) != want {
			t.Errorf("use %d: %v", i, err)
		}
	}
}

// TestBreakGlassCaps: one period at a time, a limited number in a day, and one of concurrent
// attempts.
func TestBreakGlassCaps(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	var wg sync.WaitGroup
	won := make(chan error, 8)
	tokens := []string{plan(t, x, "gil"), plan(t, x, "gil")}
	for i := range 8 {
		proof := anew(t, x, "gil", tokens[i%2]) // each begins its own plan, by its own sign-in
		proof.AuthAt = proof.AuthAt.Add(time.Duration(i) * time.Second)
		wg.Go(func() {
			_, err := x.Broker.BeginBreakGlass(context.Background(), x.Principals["gil"], tokens[i%2], proof)
			won <- err
		})
	}
	wg.Wait()
	close(won)
	n := 0
	for err := range won {
		switch kind(err) {
		case "":
			n++
		case broker.Conflict:
		default:
			t.Error(err)
		}
	}
	if n != 1 {
		t.Fatalf("%d began", n)
	}
	x.Clock.Add(31 * time.Minute)
	begun(t, x, "gil") // the first one has expired, although no caller ended it
	x.Clock.Add(31 * time.Minute)
	if _, err := begin(t, x, "gil"); kind(err) != broker.TooMany {
		t.Errorf("a third in a day: %v", err)
	}
	begun(t, x, brokertest.Second)
	x.Clock.Add(24 * time.Hour)
	begun(t, x, "gil")
}

// TestBreakGlassReview: by another person who is an auditor, once, after the end.
//
//ebb:invariant I7 A person cannot review their own break-glass period under any of their names
//ebb:invariant I7 A break-glass period cannot be reviewed while it is open
func TestBreakGlassReview(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	ctx := t.Context()
	g := begun(t, x, "aud2")
	review := func(who, note string) error {
		_, err := x.Broker.ReviewBreakGlass(ctx, x.Principals[who], g.ID, note)
		return err
	}
	if err := review(brokertest.Auditor, "fine"); kind(err) != broker.Conflict {
		t.Errorf("while it is open: %v", err)
	}
	if _, err := x.Broker.EndBreakGlass(ctx, x.Principals[brokertest.Approver], g.ID); kind(err) != broker.Forbidden {
		t.Errorf("ended by another person: %v", err)
	}
	if _, err := x.Broker.EndBreakGlass(ctx, x.Principals[brokertest.Auditor], g.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who, note string
		want      broker.Kind
	}{{"aud2", "fine", broker.Forbidden}, {"gil", "fine", broker.Forbidden}, {brokertest.Approver, "fine", broker.Forbidden}, {brokertest.Auditor, "", broker.Invalid}, {brokertest.Auditor, "fine", ""}, {brokertest.Auditor, "again", broker.Conflict}} {
		if err := review(c.who, c.note); kind(err) != c.want {
			t.Errorf("%s: %v", c.who, err)
		}
	}
	for who, want := range map[string]int{brokertest.Auditor: 1, "aud2": 1, brokertest.Viewer: 0} {
		if gs, err := x.Broker.BreakGlasses(ctx, x.Principals[who], broker.BreakGlassFilter{}); err != nil || len(gs) != want {
			t.Errorf("%s sees %d, %v", who, len(gs), err)
		}
	}
}

// TestBreakGlassAfterRestart: a period, its end and its uses are in the database.
func TestBreakGlassAfterRestart(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	g := begun(t, x, "gil")
	r := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write")
	cfg := x.Config
	cfg.Registerer = nil
	b, err := core.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if again, open, err := b.OpenBreakGlass(t.Context(), x.Principals["gil"]); err != nil || !open || again.ID != g.ID {
		t.Fatal(again, open, err)
	}
	if _, err := x.Broker.EndBreakGlass(t.Context(), x.Principals["gil"], g.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Decide(t.Context(), x.Principals["gil"], r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, BreakGlass: g.ID}); kind(err) != broker.Forbidden {
		t.Errorf("at another replica: %v", err)
	}
}
