package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// byCertificate returns r with the sandbox's key proved by TLS instead of a DPoP proof.
func byCertificate(r broker.TokenRequest) broker.TokenRequest {
	r.Possession = broker.Possession{X5T: "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0", Key: r.Possession.Key}
	return r
}

// I7: an approval is for one kind of binding, for one resource, and for one parent token. A request
// that differs in any of these needs its own approval.
func TestAttackAnotherQuestion(t *testing.T) {
	t.Parallel()
	const scope = "orders:eu/1:write"
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	deferred := func(b *core.Broker, change func(broker.TokenRequest) broker.TokenRequest) string {
		t.Helper()
		r := s.Request(t, scope)
		r.Deferred = true
		_, err := b.Token(t.Context(), change(r))
		return kindOf(t, err, broker.Pending).Pending.RequestID
	}
	same := func(r broker.TokenRequest) broker.TokenRequest { return r }
	first := deferred(x.Broker, same)
	held := deferred(x.Broker, byCertificate)
	if held == first || deferred(x.Broker, same) != first || deferred(x.Broker, byCertificate) != held {
		t.Error("a token for a certificate hides behind the request of one for a key")
	}
	moved := x.replica(t, func(c *core.Config) {
		p := c.Providers["orders"]
		p.Resource = "https://elsewhere.test/"
		c.Providers = map[string]broker.Provider{"orders": p}
	})
	if deferred(moved, same) == first {
		t.Error("a token for another resource hides behind the request of the first")
	}
	approve(t, x.Env, brokertest.Approver, first, broker.Verdict{})
	if _, err := s.Ask(t, scope); err != nil {
		t.Fatalf("the same: %v", err)
	}
	_, err := x.Broker.Token(t.Context(), byCertificate(s.Request(t, scope)))
	kindOf(t, err, broker.AskRequired)
	_, err = moved.Token(t.Context(), s.Request(t, scope))
	kindOf(t, err, broker.AskRequired)
}

// A request to narrow a token is not the same as a pending request without a token: one approval
// would be for a credential that is revoked with the token, the other not.
func TestAttackSameQuestionOfAnotherToken(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	const scope = "orders:eu/1:write"
	root := approved(t, x.Env, s, scope)
	from := func(tool string) string {
		r := s.Request(t, scope)
		r.Subject, r.Deferred, r.Tool = broker.Subject{AccessToken: root.Token.Reveal(), Fault: broker.Invalid}, true, tool
		_, err := x.Broker.Token(t.Context(), r)
		return kindOf(t, err, broker.Pending).Pending.RequestID
	}
	_, err := askWith(t, s, scope, "git", 0)
	if direct, first := kindOf(t, err, broker.Pending).Pending.RequestID, from("git"); first == direct || from("git") != first {
		t.Error("one request for a token and for none")
	}
}

// I4: approval is not requested beyond the end of the task. An approved grant ends with the
// evidence that was shown for it, although the poll shows none.
func TestAttackAskPastTheEnd(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	spec := brokertest.Spec()
	spec.TTL = 300
	r, f := sheetOf(t, x.Env, pending(t, x.Open(t, spec), "orders:eu/1:write").RequestID)
	if end := start.Add(300 * time.Second); r.ExpiresAt.After(end) || f.EndsBy.After(end) {
		t.Errorf("the task ends %s; the request waits until %s, what comes of it ends by %s", end, r.ExpiresAt, f.EndsBy)
	}
	spec.TTL, spec.Ticket, spec.Expect = 3600, false, broker.Expect{Attestor: "sso", Selectors: map[string]string{"sub": "job"}}
	task, _, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner), spec)
	if err != nil {
		t.Fatal(err)
	}
	s := &brokertest.Sandbox{Env: x.Env, Key: brokertest.NewKey(t), Task: task}
	evidence := issuer.Token(attesttest.Claims{"sub": "job", "aud": brokertest.Issuer, "exp": start.Add(4 * time.Minute).Unix()})
	q := s.Request(t, "orders:eu/1:write")
	q.Subject, q.Deferred = broker.Subject{TaskID: task.ID, Evidence: &attest.Evidence{Attestor: "sso", Document: []byte(evidence)}, Fault: broker.Invalid}, true
	_, err = x.Broker.Token(t.Context(), q)
	p := kindOf(t, err, broker.Pending).Pending
	approve(t, x.Env, brokertest.Approver, p.RequestID, broker.Verdict{})
	x.Clock.Add(time.Minute)
	tok, err := s.Poll(t, p.DeferralCode.Reveal())
	if err != nil || tok.ExpiresIn > 3*60 {
		t.Errorf("three minutes are left of the evidence, the token lives for %d s (%v)", tok.ExpiresIn, err)
	}
}

// I12: delegates share the limit on withdrawn requests of one sandbox.
func TestAttackTreeAsksAndTakesBack(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := delegating()
	spec.Caps.OpenRequests = 1
	s := x.Open(t, spec)
	children := []*brokertest.Sandbox{s.Delegate(t, ceiling("orders:eu/**:write")), s.Delegate(t, ceiling("orders:eu/**:write"))}
	for i := range 6 {
		by := children[i%2]
		_, err := by.AskDeferred(t, "orders:eu/1:write")
		if i == 5 {
			kindOf(t, err, broker.TooMany)
			break
		}
		code := kindOf(t, err, broker.Pending).Pending.DeferralCode
		r := by.Request(t, "orders:eu/1:write")
		if err := x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject, Possession: r.Possession}, code.Reveal()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.AskDeferred(t, "orders:eu/1:write")
	kindOf(t, err, broker.TooMany)
}

// The facts of a delegate's request name every sandbox above it.
func TestFactsNameWhoDelegated(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, delegating())
	one := ceiling("orders:eu/1:write")
	one.Depth = 1
	child := s.Delegate(t, one)
	grandchild := child.Delegate(t, ceiling("orders:eu/1:write"))
	for name, c := range map[string]struct {
		by    *brokertest.Sandbox
		above []string
	}{
		"the runner's": {s, nil}, "child": {child, []string{s.Task.Sandbox.ID}}, "grandchild": {grandchild, []string{s.Task.Sandbox.ID, child.Task.Sandbox.ID}},
	} {
		if _, f := sheetOf(t, x.Env, pending(t, c.by, "orders:eu/1:write").RequestID); !slices.Equal(f.Above, c.above) {
			t.Errorf("%s: delegated by %v, want %v", name, f.Above, c.above)
		}
	}
}

// After a denial for the wrong resource, requests for the other resources are other requests; a
// request for all of them together is the same one.
func TestWrongResourceCoolsDownWhatHasIt(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	for _, code := range []broker.DenyCode{broker.WrongResource, broker.TooBroad} {
		s := x.Open(t, brokertest.Spec())
		p := pending(t, s, "orders:eu/1:write orders:eu/2:write")
		if _, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), p.RequestID, broker.Verdict{Code: code}); err != nil {
			t.Fatal(err)
		}
		for _, whole := range []string{"orders:eu/1:write orders:eu/2:write", "orders:eu/1:write orders:eu/2:write orders:eu/3:write"} {
			_, err := s.AskDeferred(t, whole)
			kindOf(t, err, broker.Denied)
		}
		_, err := s.AskDeferred(t, "orders:eu/1:write")
		kindOf(t, err, broker.Pending)
	}
}
