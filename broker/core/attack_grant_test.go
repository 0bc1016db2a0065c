package core_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// askWith requests a token for a tool and a time, and accepts a deferral.
func askWith(t *testing.T, s *brokertest.Sandbox, scope, tool string, ttl time.Duration) (broker.Token, error) {
	t.Helper()
	r := s.Request(t, scope)
	r.Deferred, r.Tool, r.TTL = true, tool, ttl
	return s.Env.Broker.Token(t.Context(), r)
}

// I7: a person approves one tool for one duration, and sees how long the approval can be reused. It
// serves no other tool, and no longer duration.
func TestAttackStretchingAGrant(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	const scope = "orders:eu/1:write"
	_, err := askWith(t, s, scope, "git", 10*time.Minute)
	p := kindOf(t, err, broker.Pending).Pending
	r, err := x.Broker.Request(t.Context(), x.who(brokertest.Approver), p.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	var facts struct {
		TTL   int    `json:"ttl_seconds"`
		Reuse int    `json:"grant_seconds"`
		Tool  string `json:"tool"`
	}
	if err := json.Unmarshal(r.Facts, &facts); err != nil || facts.TTL != 600 || facts.Reuse != 600 || facts.Tool != "git" {
		t.Errorf("the facts say %+v (%v)", facts, err)
	}
	_, err = askWith(t, s, scope, "curl", 10*time.Minute)
	if other := kindOf(t, err, broker.Pending).Pending; other.RequestID == p.RequestID {
		t.Error("another tool hides behind the request of the first")
	}
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{TTL: 300})
	end := x.Clock.Now().Add(5 * time.Minute)
	x.Clock.Add(time.Minute)
	if _, err := s.Poll(t, p.DeferralCode.Reveal()); err != nil {
		t.Fatal(err)
	}
	x.Clock.Add(3 * time.Minute)
	again, err := askWith(t, s, scope, "git", 10*time.Minute)
	if err != nil {
		t.Fatalf("the same, while the grant lives: %v", err)
	}
	if got := x.Clock.Now().Add(again.ExpiresIn.Duration()); got.After(end) {
		t.Errorf("approved until %v, good until %v", end, got)
	}
	for _, tool := range []string{"curl", ""} {
		_, err := askWith(t, s, scope, tool, time.Minute)
		kindOf(t, err, broker.Pending)
	}
	x.Clock.Add(time.Minute)
	_, err = askWith(t, s, scope, "git", 10*time.Second)
	kindOf(t, err, broker.Pending)
}

// The reuse time of an approval is among the facts: after a change of the configuration, the
// approver's evidence is stale.
func TestAttackGrantTimeChanges(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Limits: broker.Limits{GrantTTL: time.Minute}})
	s := x.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	r, err := x.Broker.Request(t.Context(), x.who(brokertest.Approver), p.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	other := x.replica(t, func(c *core.Config) { c.Limits.GrantTTL = 10 * time.Minute })
	_, err = other.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.Conflict)
}

// An approved narrowing of a token is not issued once that token is revoked.
func TestAttackApprovalOutlivesTheParent(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	const scope = "orders:eu/1:write"
	_, err := askWith(t, s, scope, "git", 0)
	p := kindOf(t, err, broker.Pending).Pending
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	root, err := s.Poll(t, p.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	r := s.Request(t, scope)
	r.Subject, r.Deferred, r.Tool = broker.Subject{AccessToken: root.Token.Reveal(), Fault: broker.Invalid}, true, "curl"
	_, err = x.Broker.Token(t.Context(), r)
	p = kindOf(t, err, broker.Pending).Pending
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	if _, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), root.LeaseID, "leak"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.InvalidGrant)
}

// An approval to narrow a token serves credentials that are revoked with that token, and none that
// would outlive it.
func TestAttackApprovalWithoutTheParent(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	const scope = "orders:eu/1:write"
	approved := func(err error) broker.Token {
		t.Helper()
		p := kindOf(t, err, broker.Pending).Pending
		approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
		tok, err := s.Poll(t, p.DeferralCode.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	from := func(parent broker.Token) (broker.Token, error) {
		r := s.Request(t, scope)
		r.Subject, r.Deferred, r.Tool = broker.Subject{AccessToken: parent.Token.Reveal(), Fault: broker.Invalid}, true, "curl"
		return x.Broker.Token(t.Context(), r)
	}
	_, err := askWith(t, s, scope, "git", 0)
	root := approved(err)
	sibling, err := askWith(t, s, scope, "git", 0)
	if err != nil || sibling.LeaseID == root.LeaseID {
		t.Fatalf("the same again: %v", err)
	}
	_, err = from(root)
	child := approved(err)
	for name, parent := range map[string]broker.Token{"the root": root, "what was narrowed from it": child} {
		if _, err := from(parent); err != nil {
			t.Errorf("from %s, while the grant lives: %v", name, err)
		}
	}
	_, err = from(sibling)
	kindOf(t, err, broker.Pending)
	_, err = askWith(t, s, scope, "curl", 0)
	kindOf(t, err, broker.Pending)
}

// I7: approvals from before the task read hostile text do not replace the approvals of other people
// that policy requires now.
//
//ebb:invariant I7 A code is redeemed only if the people who approved satisfy the approval rules of the policy at that moment
func TestAttackGrantForOtherPeople(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Policies: askWhenTainted})
	s := x.Open(t, brokertest.Spec())
	approved(t, x.Env, s, "orders:eu/1:write")
	if _, err := s.Ask(t, "orders:eu/1:write"); err != nil {
		t.Fatalf("the grant is not reused: %v", err)
	}
	waiting := pending(t, s, "orders:eu/2:write")
	approve(t, x.Env, brokertest.Approver, waiting.RequestID, broker.Verdict{})
	if _, err := x.Broker.TaintTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Ask(t, "orders:eu/1:write")
	kindOf(t, err, broker.AskRequired)
	_, err = s.Poll(t, waiting.DeferralCode.Reveal())
	kindOf(t, err, broker.Denied)
	again, err := s.AskDeferred(t, "orders:eu/2:write")
	if next := kindOf(t, err, broker.Pending).Pending; next.RequestID == waiting.RequestID {
		t.Errorf("the wrong people's yes is asked for again: %+v", again)
	}
	// It has ended: not even when policy requires those people again.
	untainted, err := policy.Load(map[string][]byte{"p.cedar": []byte(`@id("clean") @ask("approvers") permit (principal, action, resource);`)})
	if err != nil {
		t.Fatal(err)
	}
	x.Config.Policy.Replace(untainted)
	x.Clock.Add(10 * time.Second)
	_, err = s.Poll(t, waiting.DeferralCode.Reveal())
	kindOf(t, err, broker.InvalidGrant)
	if r, _ := sheetOf(t, x.Env, waiting.RequestID); r.State != broker.RequestWithdrawn {
		t.Errorf("it is %s", r.State)
	}
}

var askWhenTainted = map[string][]byte{"p.cedar": []byte(`
@id("clean") @ask("approvers")
permit (principal, action, resource) unless { context.taint.contains("web") };
@id("tainted") @ask("security") @quorum("2")
permit (principal, action, resource) when { context.taint.contains("web") };
`)}
