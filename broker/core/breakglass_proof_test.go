package core_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// TestBreakGlassProof: a period begins only with a proof of this plan, by this person, at this
// time.
//
//ebb:invariant I7 A break-glass plan is accepted only if ebb issued it
//ebb:invariant I7 A break-glass plan is accepted only from the person who requested it, and only within ten minutes
//ebb:invariant I7 A new sign-in proves a break-glass plan only if it happened after the plan was made
//ebb:invariant I7 A new sign-in proves only the break-glass plan for which it was made
func TestBreakGlassProof(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	gil, ann, ctx := x.Principals["gil"], x.Principals[brokertest.Approver], t.Context()
	early := x.Clock.Now().Add(-2 * time.Minute)
	token := plan(t, x, "gil")
	good := anew(t, x, "gil", token)
	with := func(change func(*approval.BreakGlassProof)) approval.BreakGlassProof {
		p := good
		change(&p)
		return p
	}
	signed := func(p *approval.BreakGlassProof) { p.AuthAt, p.Signed, p.Passkey = time.Time{}, `{"key":"eA"}`, "78" }
	asked, _ := x.Broker.ReadBreakGlassPlan(gil, token)
	other, _ := x.Broker.ReadBreakGlassPlan(gil, plan(t, x, "gil"))
	for name, c := range map[string]struct {
		who   broker.Principal
		token string
		proof approval.BreakGlassProof
		want  broker.Kind
	}{
		"no proof":                 {gil, token, with(func(p *approval.BreakGlassProof) { p.AuthAt = time.Time{} }), broker.Forbidden},
		"two proofs":               {gil, token, with(func(p *approval.BreakGlassProof) { p.Signed = "{}" }), broker.Forbidden},
		"a sign-in before":         {gil, token, with(func(p *approval.BreakGlassProof) { p.AuthAt = early }), broker.Forbidden},
		"a clock far behind":       {gil, token, with(func(p *approval.BreakGlassProof) { p.AuthAt = asked.AskedAt.Add(-time.Minute - time.Second) }), broker.Forbidden},
		"of tomorrow":              {gil, token, with(func(p *approval.BreakGlassProof) { p.AuthAt = p.AuthAt.Add(24 * time.Hour) }), broker.Forbidden},
		"a session unknown to all": {gil, token, with(func(p *approval.BreakGlassProof) { p.Session = "none" }), broker.Forbidden},
		"of no session":            {gil, token, with(func(p *approval.BreakGlassProof) { p.Session = "" }), broker.Forbidden},
		"somebody else's session":  {gil, token, with(func(p *approval.BreakGlassProof) { p.Session = signedIn(t, x, brokertest.Approver) }), broker.Forbidden},
		"for something else":       {gil, token, with(func(p *approval.BreakGlassProof) { p.For = "" }), broker.Forbidden},
		"for another plan":         {gil, token, with(func(p *approval.BreakGlassProof) { p.For = other.ID }), broker.Forbidden},
		"a session of before":      {gil, token, with(func(p *approval.BreakGlassProof) { p.SessionBegan = asked.AskedAt }), broker.Forbidden},
		"no session":               {gil, token, with(func(p *approval.BreakGlassProof) { p.SessionEnds = time.Time{} }), broker.Forbidden},
		"a session that is over":   {gil, token, with(func(p *approval.BreakGlassProof) { p.SessionEnds = x.Clock.Now() }), broker.Forbidden},
		"a passkey nobody judges":  {gil, token, with(signed), broker.Forbidden},
		"a proof that is too long": {gil, token, with(func(p *approval.BreakGlassProof) { signed(p); p.Signed = strings.Repeat(" ", approval.MaxSnapshot+1) }), broker.Invalid},
		"somebody else's plan":     {ann, token, good, broker.Conflict},
		"nobody":                   {broker.Principal{}, token, good, broker.Unauthenticated},
		"no token":                 {gil, "", good, broker.Conflict},
		"no plan":                  {gil, ".", good, broker.Conflict},
		"no MAC":                   {gil, strings.SplitN(token, ".", 2)[0] + ".", good, broker.Conflict},
		"another plan":             {gil, "e30" + token[strings.Index(token, "."):], good, broker.Conflict},
		"a letter more":            {gil, "A" + token, good, broker.Conflict},
	} {
		if _, err := x.Broker.BeginBreakGlass(ctx, c.who, c.token, c.proof); kind(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if gs, err := x.Broker.BreakGlasses(ctx, x.Principals[brokertest.Auditor], broker.BreakGlassFilter{}); err != nil || len(gs) != 0 {
		t.Fatalf("%d began, %v", len(gs), err)
	}
	late := plan(t, x, "gil")
	x.Clock.Add(10 * time.Minute)
	if _, err := x.Broker.BeginBreakGlass(ctx, gil, late, anew(t, x, "gil", late)); kind(err) != broker.Conflict {
		t.Errorf("a plan of long ago: %v", err)
	}
	x.Clock.Add(-20 * time.Minute)
	if _, err := x.Broker.BeginBreakGlass(ctx, gil, late, anew(t, x, "gil", late)); kind(err) != broker.Conflict {
		t.Errorf("a plan of the future: %v", err)
	}
	back := plan(t, x, "gil")
	if _, err := x.Broker.BeginBreakGlass(ctx, gil, back, anew(t, x, "gil", back)); kind(err) != broker.Unavailable || !strings.Contains(broker.AsError(err).Public, "clock") {
		t.Errorf("while the clock is back: %v", err)
	}
}

// TestBreakGlassReplicaBehind: a replica accepts a plan of another replica whose clock is ahead by
// less than the tolerance; beyond it, it refuses.
func TestBreakGlassReplicaBehind(t *testing.T) {
	t.Parallel()
	for behind, ok := range map[time.Duration]bool{50 * time.Second: true, 5 * time.Minute: false} {
		x := glassHouse(t)
		gil := x.Principals["gil"]
		token := plan(t, x, "gil")
		proof := anew(t, x, "gil", token)
		other := restarted(t, x, func(c *core.Config) {
			c.Now = func() time.Time { return x.Clock.Now().Add(-behind) }
		})
		_, err := other.ReadBreakGlassPlan(gil, token)
		if (err == nil) != ok {
			t.Errorf("%s behind, a plan: %v", behind, err)
		}
		g, err := x.Broker.BeginBreakGlass(t.Context(), gil, token, proof)
		if err != nil {
			t.Fatal(err)
		}
		if _, open, err := other.OpenBreakGlass(t.Context(), gil); open != ok || err != nil {
			t.Errorf("%s behind, a period: open %v, %v", behind, open, err)
		}
		if !ok {
			continue
		}
		r := waits(t, x, x.Open(t, brokertest.Spec()), "orders:eu/1:write")
		if _, err := other.Decide(t.Context(), gil, r.ID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, BreakGlass: g.ID}); err != nil {
			t.Errorf("%s behind, a yes: %v", behind, err)
		}
	}
}

// TestBreakGlassPasskeyAlone: if high risk requires a passkey, so does break-glass.
//
//ebb:invariant I6 If the configuration requires a passkey for break-glass, no other proof is accepted
func TestBreakGlassPasskeyAlone(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}, Passkey: true}})
	if _, err := begin(t, x, brokertest.Approver); kind(err) != broker.Forbidden || !strings.Contains(err.Error(), "passkey") {
		t.Errorf("by a sign-in anew: %v", err)
	}
}

// TestBreakGlassProofCountsOnce: a proof begins one period only, also after its end, and of
// concurrent attempts one wins.
func TestBreakGlassProofCountsOnce(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	gil, ctx := x.Principals["gil"], t.Context()
	token, second := plan(t, x, "gil"), plan(t, x, "gil")
	proof := anew(t, x, "gil", token)
	var wg sync.WaitGroup
	won := make(chan broker.BreakGlass, 8)
	for range 8 {
		wg.Go(func() {
			g, err := x.Broker.BeginBreakGlass(context.Background(), gil, token, proof)
			if err == nil {
				won <- g
			} else if kind(err) != broker.Conflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(won)
	if len(won) != 1 {
		t.Fatalf("%d began", len(won))
	}
	g := <-won
	if _, err := x.Broker.EndBreakGlass(ctx, gil, g.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Broker.BeginBreakGlass(ctx, gil, token, proof); kind(err) != broker.Conflict {
		t.Errorf("the same again: %v", err)
	}
	another, _ := x.Broker.ReadBreakGlassPlan(gil, second)
	proof.For = another.ID // the sign-in is used already, so another purpose does not help
	if _, err := x.Broker.BeginBreakGlass(ctx, gil, second, proof); kind(err) != broker.Conflict {
		t.Errorf("another by the same sign-in: %v", err)
	}
	if _, err := x.Broker.BeginBreakGlass(ctx, gil, token, anew(t, x, "gil", token)); kind(err) != broker.Conflict {
		t.Errorf("the same plan by another sign-in: %v", err)
	}
	x.Clock.Add(time.Second)
	if _, err := x.Broker.BeginBreakGlass(ctx, gil, second, anew(t, x, "gil", second)); err != nil {
		t.Errorf("another by another sign-in: %v", err)
	}
}

// TestBreakGlassPasskeyOfWhom: the audit log decides whose passkey it is, before its signature is
// verified.
//
//ebb:invariant I7 A passkey proves a break-glass plan only if it belongs to that person and was registered before the session began
//ebb:invariant I7 A passkey signature proves a break-glass plan only if it signs exactly that plan
func TestBreakGlassPasskeyOfWhom(t *testing.T) {
	t.Parallel()
	var judged []audit.Signature
	x := brokertest.New(t, brokertest.Config{BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}, Check: func(s audit.Signature) error {
		judged = append(judged, s)
		if s.Proof != "good" {
			return errors.New("it is not")
		}
		return nil
	}}})
	ann, bob, ctx := x.Principals[brokertest.Approver], x.Principals[brokertest.Second], t.Context()
	began := x.Clock.Now()
	try := func(proof string) error {
		token := plan(t, x, brokertest.Approver)
		_, err := x.Broker.BeginBreakGlass(ctx, ann, token, approval.BreakGlassProof{Signed: proof, Passkey: "aa", Session: signedIn(t, x, brokertest.Approver), SessionBegan: began, SessionEnds: x.Clock.Now().Add(time.Hour)})
		return err
	}
	if err := try("good"); kind(err) != broker.Forbidden || len(judged) != 0 {
		t.Errorf("an unregistered passkey: %v", err)
	}
	if err := x.Broker.PasskeyAdded(ctx, bob, "aa", []byte("key")); err != nil {
		t.Fatal(err)
	}
	if err := try("good"); kind(err) != broker.Forbidden || len(judged) != 0 {
		t.Errorf("another person's passkey: %v", err)
	}
	if err := x.Broker.PasskeyAdded(ctx, ann, "aa", []byte("key")); err != nil {
		t.Fatal(err)
	}
	if err := try("good"); kind(err) != broker.Forbidden || len(judged) != 0 || !strings.Contains(err.Error(), "this session") {
		t.Errorf("one that was made in this session: %v", err)
	}
	began = x.Clock.Now()
	if err := try("bad"); kind(err) != broker.Forbidden || len(judged) != 1 {
		t.Errorf("of something else: %v", err)
	}
	if err := x.Broker.PasskeyRemoved(ctx, ann, "aa"); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(2 * time.Minute)
	if err := try("good"); kind(err) != broker.Forbidden || len(judged) != 1 {
		t.Errorf("one that was removed: %v", err)
	}
	if err := x.Broker.PasskeyAdded(ctx, ann, "aa", []byte("key")); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(time.Second)
	began = x.Clock.Now()
	if err := try("good"); err != nil {
		t.Errorf("one that was registered again: %v", err)
	}
}
