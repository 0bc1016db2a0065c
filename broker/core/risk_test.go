package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
)

func sheetOf(t *testing.T, e *brokertest.Env, id string) (broker.Request, broker.FactSheet) {
	t.Helper()
	r, err := e.Broker.Request(t.Context(), e.Principals[brokertest.Auditor], id)
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.Sheet()
	if err != nil {
		t.Fatalf("%v: %s", err, r.Facts)
	}
	return r, f
}

func reasons(f broker.FactSheet) (ids []string) {
	for _, r := range f.Risk.Reasons {
		ids = append(ids, r.ID)
	}
	return ids
}

// The evidence for an approver is computed, sealed and complete.
func TestFactsSayRiskAndChanges(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Fatal(err)
	}
	e.Clock.Add(90 * time.Second)
	p := pending(t, s, "orders:eu/1:write orders:eu/1:read")
	r, f := sheetOf(t, e, p.RequestID)
	if f.Risk.Level != risk.High || !slices.Contains(reasons(f), "final-first") || !f.Understood() || f.Effect.Writes != provider.Unknown {
		t.Errorf("%+v %+v", f.Risk, f.Effect)
	}
	if f.Undoable.String() != "orders:eu/1:read" || f.Then.EvidenceAge != 90 || !f.Then.First || f.Then.Earlier != (broker.Earlier{}) || !f.Then.At.Equal(r.CreatedAt) {
		t.Errorf("%s %+v", f.Undoable, f.Then)
	}
	rows := map[risk.Field]risk.Row{}
	for _, row := range f.Then.Changes {
		rows[row.Field] = row
	}
	if row := rows[risk.FieldPermission]; row.Now != "read" || row.Asked != "read, write" || !row.Changed {
		t.Errorf("%+v", row)
	}
	if row := rows[risk.FieldTime]; row.Now != "13 min" || row.Asked != "15 min" || !row.Changed {
		t.Errorf("%+v", row)
	}
	if end := f.End(r.CreatedAt); !end.Equal(r.CreatedAt.Add(15*time.Minute)) || !f.EndsBy.Equal(r.ExpiresAt.Add(15*time.Minute)) {
		t.Errorf("ends at %s, by %s", end, f.EndsBy)
	}
	// Time passes, other requests are denied, and the credential ends: the stored facts stay.
	e.Clock.Add(14 * time.Minute)
	if _, err := s.Ask(t, "orders:eu/2:drop"); err == nil {
		t.Fatal("issued")
	}
	approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{})
	if _, err := s.Poll(t, p.DeferralCode.Reveal()); err != nil {
		t.Error(err)
	}
}

// History is that of the owner and kind of task, and only approved requests count as known.
func TestFactsSayWhatWasAskedBefore(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	deny := func(id string) {
		t.Helper()
		r, _ := sheetOf(t, e, id)
		if _, err := e.Broker.Decide(t.Context(), e.Principals[brokertest.Second], id, broker.Verdict{Digest: r.Digest, Code: broker.TooBroad}); err != nil {
			t.Fatal(err)
		}
	}
	first := e.Open(t, brokertest.Spec())
	p := pending(t, first, "orders:eu/1:write")
	deny(p.RequestID)
	e.Clock.Add(time.Minute)
	second := e.Open(t, brokertest.Spec())
	p = pending(t, second, "orders:eu/1:write")
	_, f := sheetOf(t, e, p.RequestID)
	was := f.Then.Earlier
	if !f.Then.First || was.Asked != 1 || was.Denied != 1 || was.Approved != 0 || was.Last != broker.RequestDenied || was.LastBy != brokertest.Second || was.LastCode != broker.TooBroad || was.LastAt.IsZero() {
		t.Errorf("after a denial: %+v", f.Then)
	}
	approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{})
	third := e.Open(t, brokertest.Spec())
	_, f = sheetOf(t, e, pending(t, third, "orders:eu/2:write").RequestID)
	if f.Then.First || f.Then.Earlier.Asked != 0 || slices.Contains(reasons(f), "final-first") {
		t.Errorf("after an approval: %+v %v", f.Then, reasons(f))
	}
	for name, change := range map[string]func(*broker.TaskSpec){
		"another owner":    func(s *broker.TaskSpec) { s.Owner = "else@example.com" },
		"another provider": func(s *broker.TaskSpec) { s.Ceiling = scopes.MustParseSet("mail:**:*") },
		"another kind":     func(s *broker.TaskSpec) { s.Kind = "else" },
	} {
		spec := brokertest.Spec()
		change(&spec)
		s := e.Open(t, spec)
		scope := "orders:eu/1:write"
		if !spec.Ceiling.Covers(scopes.MustParseSet(scope)) {
			scope = "mail:eu/1:write"
		}
		if _, f := sheetOf(t, e, pending(t, s, scope).RequestID); !f.Then.First {
			t.Errorf("%s: %+v", name, f.Then)
		}
	}
}

// I6: a scope that no driver describes can be denied, not approved.
//
//ebb:invariant I7 A request whose scope ebb does not understand cannot be approved
func TestWhatIsNotUnderstoodIsNeverApproved(t *testing.T) {
	t.Parallel()
	d := &odd{describe: func(s scopes.Scope) (provider.Effect, error) {
		if s.Action() == "frob" {
			return provider.Effect{}, fmt.Errorf("%w: what is that", provider.ErrUnsupported)
		}
		return provider.ByAction(s), nil
	}}
	x := tried(t, brokertest.Party{}, d)
	s := x.Open(t, upSpec())
	p := pending(t, s, "up:a:frob up:a:write")
	r, f := sheetOf(t, x.Env, p.RequestID)
	if f.Understood() || f.Risk.Level != risk.High || f.Risk.Reasons[0].ID != "not-understood" {
		t.Errorf("%+v", f.Risk)
	}
	_, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.NotUnderstood)
	_, err = x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true, Scopes: scopes.MustParseSet("up:a:write")})
	kindOf(t, err, broker.NotUnderstood)
	if out, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.ByPolicy}); err != nil || out.State != broker.RequestDenied || len(out.Votes) != 1 {
		t.Errorf("%+v %v", out, err)
	}
}

// A driver that learns a scope between the request and the approval changes the facts.
func TestEffectsAreAmongTheFacts(t *testing.T) {
	t.Parallel()
	effect := provider.Reading()
	d := &odd{describe: func(scopes.Scope) (provider.Effect, error) { return effect, nil }}
	x := tried(t, brokertest.Party{}, d)
	s := x.Open(t, upSpec())
	p := pending(t, s, "up:a:write")
	r, _ := sheetOf(t, x.Env, p.RequestID)
	effect = provider.Effect{Writes: provider.Yes, Reversible: provider.No, Sentence: "Gone is gone."}
	_, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.Conflict)
}

// B4: high risk needs several different people, under any policy.
func TestHighRiskNeedsTwo(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Limits: broker.Limits{HighRiskQuorum: 2}})
	s := e.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	r, f := sheetOf(t, e, p.RequestID)
	if r.Quorum != 2 || f.Ask.Quorum != 2 || f.Risk.Level != risk.High {
		t.Fatalf("%+v", r.Approval)
	}
	yes := broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true}
	for _, who := range []string{brokertest.Approver, brokertest.Approver} {
		out, err := e.Broker.Decide(t.Context(), e.Principals[who], p.RequestID, yes)
		if err == nil && out.State != broker.RequestPending {
			t.Fatalf("one person was enough: %+v", out)
		}
	}
	if out, err := e.Broker.Decide(t.Context(), e.Principals[brokertest.Second], p.RequestID, yes); err != nil || out.State != broker.RequestApproved {
		t.Fatalf("%v, %v", out.State, err)
	}
	if _, err := s.Poll(t, p.DeferralCode.Reveal()); err != nil {
		t.Fatal(err)
	}
	// Known by now, the same request is not of high risk: one approval suffices, according to
	// policy.
	other := e.Open(t, brokertest.Spec())
	p = pending(t, other, "orders:eu/1:write")
	if r, _ = sheetOf(t, e, p.RequestID); r.Quorum != 1 {
		t.Fatalf("%+v", r.Approval)
	}
	approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{})
	// Reading a source then makes it high risk: one approval no longer suffices, neither for the
	// first token nor for a reuse.
	if _, err := e.Broker.TaintTask(t.Context(), e.Principals[brokertest.Runner], other.Task.ID, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	_, err := other.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.Denied)
	_, err = other.Ask(t, "orders:eu/1:write")
	kindOf(t, err, broker.AskRequired)
	p = pending(t, other, "orders:eu/1:write")
	if r, f = sheetOf(t, e, p.RequestID); r.Quorum != 2 || f.Risk.Reasons[0].ID != "tainted-write" {
		t.Errorf("%+v %+v", r.Approval, f.Risk)
	}
}

// I9: the text of a request does not change its risk.
func TestWordsDoNotMoveRisk(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	_, f := sheetOf(t, e, pending(t, s, "orders:eu/production:write").RequestID)
	if slices.ContainsFunc(reasons(f), func(id string) bool { return strings.HasPrefix(id, "production") }) {
		t.Error("a name was guessed from")
	}
}
