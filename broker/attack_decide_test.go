package broker_test

import (
	"strings"
	"testing"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// The verdict "suspicious" is on the record and the process dies, or its outcome
// is not known: the task must end all the same.
func TestAttackSuspicionIsForgotten(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	suspect := func(b *broker.Broker, id string) error {
		_, err := b.Decide(t.Context(), x.who(brokertest.Approver), id, broker.Verdict{Code: broker.Suspicious})
		return err
	}
	closed := func(id string) bool {
		ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{IDs: []string{id}})
		return err == nil && ts[0].State == broker.TaskClosed && ts[0].Cause == broker.CauseSuspicious
	}
	unsure := x.Open(t, brokertest.Spec())
	x.store.onDone("Vote", once(errDown))
	id := pending(t, unsure, "orders:eu/1:write").RequestID
	kindOf(t, suspect(x.Broker, id), broker.Unavailable)
	_ = suspect(x.Broker, id)
	if !closed(unsure.Task.ID) {
		t.Error("the verdict counted, its outcome was unknown, and asking again did not stop the task")
	}

	crashed := x.Open(t, brokertest.Spec())
	x.store.onDone("Vote", once(errDown))
	kindOf(t, suspect(x.Broker, pending(t, crashed, "orders:eu/1:write").RequestID), broker.Unavailable)
	x.janitor(t, x.replica(t))
	eventually(t, "a restart finds the verdict and stops the task", func() bool { return closed(crashed.Task.ID) })
}

// The agent takes its request back when it sees that somebody looks.
func TestAttackSuspicionIsDodged(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	tok := minted(t, s, "orders:eu/1:read")
	p := pending(t, s, "orders:eu/1:write")
	r := s.Request(t, "orders:eu/1:read")
	if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, p.DeferralCode.Reveal()); err != nil {
		t.Fatal(err)
	}
	stranger := broker.Principal{ID: "eve", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}}
	_, err := x.Broker.Decide(t.Context(), stranger, p.RequestID, broker.Verdict{Code: broker.Suspicious})
	kindOf(t, err, broker.Forbidden)
	_, err = x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.TooBroad})
	kindOf(t, err, broker.Conflict)
	if _, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.Suspicious}); err != nil {
		t.Fatal(err)
	}
	if x.Active(t, tok.Token.Reveal()) {
		t.Error("withdrawing the request saved the task")
	}
}

// I12: taking requests back must not buy new ones without end.
func TestAttackAskAndTakeBack(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	var err error
	n := 0
	for ; n < 40; n++ {
		if _, err = s.AskDeferred(t, "orders:eu/1:write"); broker.AsError(err).Kind != broker.Pending {
			break
		}
		r := s.Request(t, "orders:eu/1:read")
		if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, broker.AsError(err).Pending.DeferralCode.Reveal()); err != nil {
			t.Fatal(err)
		}
	}
	if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 {
		t.Error("no Retry-After")
	}
	if n < 3 {
		t.Errorf("refused after %d requests that were taken back", n)
	}
}

// A new policy between the yes and the poll.
func TestAttackPolicyTightenedBeforeThePoll(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	two, err := policy.Load(map[string][]byte{"p.cedar": []byte(`@id("two") @ask("approvers") @quorum("2") permit (principal, action, resource);`)})
	if err != nil {
		t.Fatal(err)
	}
	x.Config.Policy.Replace(two)
	if _, err = s.Poll(t, p.DeferralCode.Reveal()); err == nil {
		t.Error("one yes was enough where policy wants two")
	}
}

// The owner is written by hand; its letter case is not who somebody is.
func TestAttackSelfApprovalByLetterCase(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Owner = strings.ToUpper(brokertest.Approver)
	p := pending(t, x.Open(t, spec), "orders:eu/1:write")
	r, err := x.Broker.Request(t.Context(), x.who(brokertest.Auditor), p.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.Forbidden)
}

// ---- The record ----

// A request of less than what a person refused as such is the same question.
func TestAttackCoolDownBySplitting(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	both := scopes.MustParseSet("orders:eu/1:write orders:eu/2:write")
	p := pending(t, s, both.String())
	if _, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: broker.NotNeeded}); err != nil {
		t.Fatal(err)
	}
	for _, part := range append(both.Scopes(), scopes.MustParse("orders:eu/2:write")) {
		_, err := s.AskDeferred(t, part.String())
		kindOf(t, err, broker.Denied)
	}
	_, err := s.AskDeferred(t, "orders:eu/3:write")
	kindOf(t, err, broker.Pending)
}
