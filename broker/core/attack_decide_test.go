package core_test

import (
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// The verdict "suspicious" is in the audit log, and the process dies or its outcome is not known:
// the task must still be closed.
func TestAttackSuspicionIsForgotten(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	suspect := func(b *core.Broker, id string) error {
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

// The agent withdraws its request when it notices a review.
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

// I12: withdrawing requests must not allow new ones without limit.
//
//ebb:invariant I12
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

// A new policy between the approval and the poll.
//
//ebb:invariant I7 A code is redeemed only if the people who approved satisfy the approval rules of the policy at that moment
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

// The owner is entered as text; another spelling is the same person. A spelling that cannot be
// compared is refused when the task is opened.
//
//ebb:invariant I7 An approver cannot decide requests of a task that they own or run
//ebb:invariant I7 Another spelling of a name identifies the same person, so it does not let an approver decide their own task's requests
//ebb:invariant I7 The name of a task's owner cannot contain characters that look like others
func TestAttackSelfApprovalBySpelling(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	ann := x.who(brokertest.Approver)
	ann.Also = []string{"sub-1", "ann@example.com"}
	for name, owner := range map[string]string{
		"id": "ann", "letter case": "ANN", "blank behind": "ann ", "blank before": " ann", "no-break space": "ann\u00a0", "ideographic space": "ann\u3000",
		"fullwidth": "\uff41\uff4e\uff4e", "Cyrillic a": "\u0430nn", "combining mark": "a\u0301nn", "variation selector": "ann\ufe0f",
		"combining grapheme joiner": "a\u034fnn", "Hangul filler": "ann\u3164", "long s": "\u017fub-1",
		"address": "ann@example.com", "address in capitals": "Ann@Example.COM", "address with a blank": "ann@example.com ", "address with a fullwidth sign": "ann\uff20example.com",
	} {
		spec := brokertest.Spec()
		spec.Owner = owner
		task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
		if err != nil {
			kindOf(t, err, broker.Invalid)
			continue
		}
		p := pending(t, x.Enrol(t, task, ticket), "orders:eu/1:write")
		r, err := x.Broker.Request(t.Context(), x.who(brokertest.Auditor), p.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = x.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true}); err == nil {
			t.Errorf("%s: the owner %q approved their own request", name, owner)
		} else {
			kindOf(t, err, broker.Forbidden)
		}
	}
}

// A request for a part of a denied request is the same request.
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
