package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
	"ebb/broker/provider"
	"ebb/scopes"
)

// TestBreakGlassProof: without a proof of just this, by just this person, at just this
// moment, nothing begins.
func TestBreakGlassProof(t *testing.T) {
	t.Parallel()
	x := glassHouse(t)
	gil, ann, ctx := x.Principals["gil"], x.Principals[brokertest.Approver], t.Context()
	early := x.Clock.Now().Add(-2 * time.Minute)
	token := plan(t, x, "gil")
	good := anew(t, x, "gil", token)
	with := func(change func(*broker.BreakGlassProof)) broker.BreakGlassProof {
		p := good
		change(&p)
		return p
	}
	signed := func(p *broker.BreakGlassProof) { p.AuthAt, p.Signed, p.Passkey = time.Time{}, `{"key":"eA"}`, "78" }
	asked, _ := x.Broker.ReadBreakGlassPlan(gil, token)
	other, _ := x.Broker.ReadBreakGlassPlan(gil, plan(t, x, "gil"))
	for name, c := range map[string]struct {
		who   broker.Principal
		token string
		proof broker.BreakGlassProof
		want  broker.Kind
	}{
		"no proof":                 {gil, token, with(func(p *broker.BreakGlassProof) { p.AuthAt = time.Time{} }), broker.Forbidden},
		"two proofs":               {gil, token, with(func(p *broker.BreakGlassProof) { p.Signed = "{}" }), broker.Forbidden},
		"a sign-in before":         {gil, token, with(func(p *broker.BreakGlassProof) { p.AuthAt = early }), broker.Forbidden},
		"a clock far behind":       {gil, token, with(func(p *broker.BreakGlassProof) { p.AuthAt = asked.AskedAt.Add(-time.Minute - time.Second) }), broker.Forbidden},
		"of tomorrow":              {gil, token, with(func(p *broker.BreakGlassProof) { p.AuthAt = p.AuthAt.Add(24 * time.Hour) }), broker.Forbidden},
		"a session unknown to all": {gil, token, with(func(p *broker.BreakGlassProof) { p.Session = "none" }), broker.Forbidden},
		"of no session":            {gil, token, with(func(p *broker.BreakGlassProof) { p.Session = "" }), broker.Forbidden},
		"somebody else's session":  {gil, token, with(func(p *broker.BreakGlassProof) { p.Session = signedIn(t, x, brokertest.Approver) }), broker.Forbidden},
		"for something else":       {gil, token, with(func(p *broker.BreakGlassProof) { p.For = "" }), broker.Forbidden},
		"for another plan":         {gil, token, with(func(p *broker.BreakGlassProof) { p.For = other.ID }), broker.Forbidden},
		"a session of before":      {gil, token, with(func(p *broker.BreakGlassProof) { p.SessionBegan = asked.AskedAt }), broker.Forbidden},
		"no session":               {gil, token, with(func(p *broker.BreakGlassProof) { p.SessionEnds = time.Time{} }), broker.Forbidden},
		"a session that is over":   {gil, token, with(func(p *broker.BreakGlassProof) { p.SessionEnds = x.Clock.Now() }), broker.Forbidden},
		"a passkey nobody judges":  {gil, token, with(signed), broker.Forbidden},
		"a proof that is too long": {gil, token, with(func(p *broker.BreakGlassProof) { signed(p); p.Signed = strings.Repeat(" ", broker.MaxSeen+1) }), broker.Invalid},
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
	if _, err := x.Broker.BeginBreakGlass(ctx, gil, late, anew(t, x, "gil", late)); err == nil {
		t.Error("a plan of the future")
	}
}

// TestBreakGlassPasskeyAlone: where high risk takes a passkey, so does this.
func TestBreakGlassPasskeyAlone(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{BreakGlass: broker.BreakGlassConfig{Groups: []string{"approvers"}, Passkey: true}})
	if _, err := begin(t, x, brokertest.Approver); kind(err) != broker.Forbidden || !strings.Contains(err.Error(), "passkey") {
		t.Errorf("by a sign-in anew: %v", err)
	}
}

// TestBreakGlassProofCountsOnce: what proved one begins no other, also after its end, and
// of many at once one wins.
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
	proof.For = another.ID // whatever the sign-in says that it was for
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

// TestBreakGlassPasskeyOfWhom: the record says whose a passkey is, whatever is judged of
// what it signed.
func TestBreakGlassPasskeyOfWhom(t *testing.T) {
	t.Parallel()
	var judged []audit.Signature
	x := brokertest.New(t, brokertest.Config{BreakGlass: broker.BreakGlassConfig{Groups: []string{"approvers"}, Check: func(s audit.Signature) error {
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
		_, err := x.Broker.BeginBreakGlass(ctx, ann, token, broker.BreakGlassProof{Signed: proof, Passkey: "aa", Session: signedIn(t, x, brokertest.Approver), SessionBegan: began, SessionEnds: x.Clock.Now().Add(time.Hour)})
		return err
	}
	if err := try("good"); kind(err) != broker.Forbidden || len(judged) != 0 {
		t.Errorf("one that nobody registered: %v", err)
	}
	if err := x.Broker.PasskeyAdded(ctx, bob, "aa", []byte("key")); err != nil {
		t.Fatal(err)
	}
	if err := try("good"); kind(err) != broker.Forbidden || len(judged) != 0 {
		t.Errorf("somebody else's: %v", err)
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

// alien is a driver that does not know what its scopes allow.
type alien struct{ provider.Driver }

func (alien) Describe(scopes.Scope) (provider.Effect, error) {
	return provider.Effect{}, fmt.Errorf("%w: what is that", provider.ErrUnsupported)
}

func (alien) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}}
}

func (alien) Check(scopes.Set) error { return nil }

// TestBreakGlassGivesNoMore: policy, what is not understood and the end of the period hold
// for who approves alone as for anybody.
func TestBreakGlassGivesNoMore(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{
		Published: true, BreakGlass: broker.BreakGlassConfig{Groups: []string{"approvers"}}, Providers: map[string]broker.Provider{"up": {Driver: alien{}, Kind: "up", Resource: "https://up.test/"}},
	})
	ann, ctx := x.Principals[brokertest.Approver], t.Context()
	g := begun(t, x, brokertest.Approver)
	yes := func(r broker.Request) (broker.Request, error) {
		return x.Broker.Decide(ctx, ann, r.ID, broker.Verdict{Approve: true, Digest: r.Digest, BreakGlass: g.ID})
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
	// Policy forbids it meanwhile: what waits, and what was approved and is not minted yet.
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

// TestBreakGlassSees: who approves alone sees what waits for anybody, and no longer than
// that; how it ended is on the record, with why.
func TestBreakGlassSees(t *testing.T) {
	t.Parallel()
	x := brokertest.New(t, brokertest.Config{BreakGlass: broker.BreakGlassConfig{People: []string{"out"}}, People: []broker.Principal{{ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}}}})
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
			t.Errorf("%s: what is over: %v", cause, err)
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
