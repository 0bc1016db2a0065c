package core_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

func TestAskNeedsACallerThatCanWait(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	_, err := s.Ask(t, "orders:eu/1:write")
	kindOf(t, err, broker.AskRequired)
	rs, err := e.Broker.Requests(t.Context(), e.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if err != nil || len(rs) != 0 {
		t.Fatalf("%d requests were queued, want none (%v)", len(rs), err)
	}
}

// Assertion 82: x/oauth2 sends a refused request twice.
func TestRepeatedRequestIsOneRequest(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	first := pending(t, s, "orders:eu/1:write")
	second := pending(t, s, "orders:eu/1:write")
	if first.RequestID != second.RequestID || !first.DeferralCode.Equal(second.DeferralCode) {
		t.Error("a repeated request got another deferral")
	}
	rs, _ := e.Broker.Requests(t.Context(), e.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if len(rs) != 1 || rs[0].Asked != 2 {
		t.Errorf("queue: %d entries, asked %d times", len(rs), rs[0].Asked)
	}
}

//ebb:invariant I7 An approver cannot decide requests of a task that they own or run
func TestNobodyApprovesTheirOwn(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Owner = brokertest.Approver
	s := e.Open(t, spec)
	p := pending(t, s, "orders:eu/1:write")
	r, err := e.Broker.Request(t.Context(), e.Principals[brokertest.Auditor], p.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	yes := broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true}
	approver := []broker.Role{broker.RoleApprover}
	for _, who := range []broker.Principal{
		e.Principals[brokertest.Approver],                                       // owner
		e.Principals[brokertest.Runner],                                         // runner, not an approver
		e.Principals[brokertest.Operator],                                       // operator, not an approver
		{ID: brokertest.Runner, Roles: approver, Groups: []string{"approvers"}}, // the runner as approver
		{ID: "eve", Roles: approver, Groups: []string{"others"}},                // another group
		{ID: s.Task.ID}, // a sandbox
	} {
		_, err := e.Broker.Decide(t.Context(), who, p.RequestID, yes)
		kindOf(t, err, broker.Forbidden)
	}
	// The console asks before it shows a form: by the identity of the person, not only by their
	// actions.
	none := e.Principals[brokertest.Second]
	none.Roles = []broker.Role{broker.RoleAuditor}
	kindOf(t, broker.MayDecide(none, r), broker.Forbidden)
	if _, err := e.Broker.Decide(t.Context(), e.Principals[brokertest.Second], p.RequestID, yes); err != nil {
		t.Fatal(err)
	}
}

//ebb:invariant I5 The scope and lifetime of an approved grant limit every credential that is minted under it
//ebb:invariant I5 An approver can narrow but never widen the requested scope and lifetime
//ebb:invariant I7 A decision that gives a shortened digest of the facts is refused
func TestApprovalsNarrowAndNeverWiden(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/*:write")
	ann := e.Principals[brokertest.Approver]
	r, _ := e.Broker.Request(t.Context(), ann, p.RequestID)
	for name, v := range map[string]broker.Verdict{
		"wider scope":  {Scopes: scopes.MustParseSet("orders:eu/**:write")},
		"other scope":  {Scopes: scopes.MustParseSet("orders:eu/1:delete")},
		"longer":       {TTL: r.TTL + 1},
		"negative":     {TTL: -1},
		"with a code":  {Code: broker.TooBroad},
		"control note": {Note: "a\x1b[2Kb"},
		"long note":    {Note: strings.Repeat("ü", 501)},
		"much seen":    {Snapshot: strings.Repeat("x", approval.MaxSnapshot+1)},
		"much proof":   {Proof: strings.Repeat("x", approval.MaxSnapshot+1)},
	} {
		v.Approve, v.Digest = true, r.Digest
		if _, err := e.Broker.Decide(t.Context(), ann, p.RequestID, v); err == nil || broker.AsError(err).Kind != broker.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := e.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Approve: true})
	kindOf(t, err, broker.Invalid) // no digest
	_, err = e.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Approve: true, Digest: strings.Repeat("0", 64)})
	kindOf(t, err, broker.Conflict) // other facts
	for _, digest := range []string{r.Digest[:16], r.Digest + "0", strings.ToUpper(r.Digest), r.Digest[:63] + "g"} {
		for _, v := range []broker.Verdict{{Approve: true, Digest: digest}, {Digest: digest, Code: broker.NotNeeded}} {
			_, err = e.Broker.Decide(t.Context(), ann, p.RequestID, v)
			kindOf(t, err, broker.Invalid) // no digest at all: the facts are unchanged
			if want := fmt.Sprintf("got %d characters", len(digest)); err == nil || !strings.Contains(broker.AsError(err).Public, want) {
				t.Errorf("digest %s: %v, want %q", digest, err, want)
			}
		}
	}
	approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{Scopes: scopes.MustParseSet("orders:eu/7:write"), TTL: 120})
	tok, err := s.Poll(t, p.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if tok.Scopes.String() != "orders:eu/7:write" || tok.ExpiresIn > 120 {
		t.Errorf("minted %s for %d s", tok.Scopes, tok.ExpiresIn)
	}
	// The grant is reused inside the task, for the scopes that it covers only.
	reused, err := s.Ask(t, "orders:eu/7:write")
	if err != nil || reused.RequestID != p.RequestID || reused.ExpiresIn > 120 {
		t.Errorf("grant reuse: %+v %v", reused, err)
	}
	_, err = s.Ask(t, "orders:eu/8:write")
	kindOf(t, err, broker.AskRequired)
	other := e.Open(t, brokertest.Spec())
	_, err = other.Ask(t, "orders:eu/7:write")
	kindOf(t, err, broker.AskRequired) // another task
	e.Clock.Add(16 * time.Minute)
	_, err = s.Ask(t, "orders:eu/7:write")
	kindOf(t, err, broker.AskRequired) // the grant has ended
}

func TestPollingFollowsTheStateMachine(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	code := p.DeferralCode.Reveal()

	thief := *s
	thief.Key = brokertest.NewKey(t)
	_, err := thief.Poll(t, code)
	kindOf(t, err, broker.InvalidGrant) // another key; the request survives
	for _, bad := range []string{"", "ebb_dfr_", code + "x", code[:len(code)-1], "ebb_dfr_" + p.RequestID[4:] + "_AAAA"} {
		_, err := s.Poll(t, bad)
		kindOf(t, err, broker.InvalidGrant)
	}
	_, err = s.Poll(t, code)
	kindOf(t, err, broker.Pending)
	_, err = s.Poll(t, code)
	slow := kindOf(t, err, broker.SlowDown)
	if slow.Pending.Interval != 10*time.Second {
		t.Errorf("interval grew to %v, want 10s", slow.Pending.Interval)
	}
	approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{})
	_, err = s.Poll(t, code)
	kindOf(t, err, broker.SlowDown) // after any decision: nothing was read
	e.Clock.Add(time.Minute)

	var won atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		proof := e.Prove(t, s.Key)
		wg.Go(func() {
			if _, err := e.Broker.Poll(t.Context(), approval.PollRequest{Code: code, Possession: proof}); err == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d of 16 polls redeemed one code", won.Load())
	}
	e.Clock.Add(2 * time.Minute)
	_, err = s.Poll(t, code)
	kindOf(t, err, broker.InvalidGrant)
}

func TestDenialFeedsBackAndCoolsDown(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	ann := e.Principals[brokertest.Approver]
	p := pending(t, s, "orders:eu/1:read orders:eu/1:write")
	_, err := e.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Code: "because"})
	kindOf(t, err, broker.Invalid)
	if _, err := e.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Code: broker.TooBroad, Note: "Reading is enough."}); err != nil {
		t.Fatal(err)
	}
	_, err = e.Broker.Decide(t.Context(), e.Principals[brokertest.Second], p.RequestID, broker.Verdict{Code: broker.TooBroad})
	if got := kindOf(t, err, broker.Conflict).Public; got != "The request was already denied by "+brokertest.Approver+"." {
		t.Error(got)
	}
	_, err = s.Poll(t, p.DeferralCode.Reveal())
	a := kindOf(t, err, broker.Denied).Advice
	if a == nil || a.Code != broker.TooBroad || a.Note != "Reading is enough." || a.RetryAfter < 800 || !a.DoNotRetrySame || a.WouldAllow.String() != "orders:eu/1:read" {
		t.Errorf("advice %+v", a)
	}
	e.Clock.Add(time.Minute)
	_, err = s.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.InvalidGrant) // the final response is returned once
	_, err = s.AskDeferred(t, "orders:eu/1:read orders:eu/1:write")
	if d := kindOf(t, err, broker.Denied); d.RetryAfter <= 0 {
		t.Error("no Retry-After in the cool-down")
	}
	_, err = s.AskDeferred(t, "orders:eu/*:read orders:eu/*:write")
	kindOf(t, err, broker.Denied) // wider than the denied request
	pending(t, s, "orders:eu/2:write")
	e.Clock.Add(16 * time.Minute)
	pending(t, s, "orders:eu/1:read orders:eu/1:write")
}

func TestSilenceIsNo(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	ann := e.Principals[brokertest.Approver]
	p := pending(t, s, "orders:eu/1:write")
	e.Clock.Add(31 * time.Minute)
	r, _ := e.Broker.Request(t.Context(), ann, p.RequestID)
	_, err := e.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	if got := kindOf(t, err, broker.Conflict).Public; !strings.Contains(got, "expired before anybody decided") {
		t.Error(got)
	}
	_, err = s.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.ExpiredRequest)
	n := 0
	for _, err := range e.Config.Store.Entries(t.Context(), broker.EntryFilter{RequestID: p.RequestID, Kind: audit.RequestExpired}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("the expiry of the request is recorded %d times", n)
	}
	e.Clock.Add(time.Minute)
	_, err = s.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.InvalidGrant)
}

func TestSuspicionStopsTheTask(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	tok, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	p := pending(t, s, "orders:eu/1:write")
	if _, err := e.Broker.Decide(t.Context(), e.Principals[brokertest.Approver], p.RequestID, broker.Verdict{Code: broker.Suspicious, Note: "stop"}); err != nil {
		t.Fatal(err)
	}
	if e.Active(t, tok.Token.Reveal()) {
		t.Error("a token outlived the suspicion")
	}
	task, _ := e.Broker.Task(t.Context(), e.Principals[brokertest.Auditor], s.Task.ID)
	if task.State != broker.TaskClosed || task.Cause != broker.CauseSuspicious {
		t.Errorf("task %s %s", task.State, task.Cause)
	}
}

//ebb:invariant I5 A request that needs two approvals is granted only the scopes in both approvals, for the shorter lifetime
//ebb:invariant I7 One person has one vote on a request, whichever of their names they use
func TestQuorumNeedsDifferentPeople(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{Policies: map[string][]byte{"p.cedar": []byte(`
@id("two") @ask("approvers") @quorum("2")
permit (principal, action, resource);
`)}})
	s := e.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/*:write")
	r := approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{Scopes: scopes.MustParseSet("orders:eu/1:write")})
	if r.State != broker.RequestPending {
		t.Fatalf("one yes of two made it %s", r.State)
	}
	hidden, _ := e.Broker.Request(t.Context(), e.Principals[brokertest.Second], p.RequestID)
	if len(hidden.Votes) != 0 {
		t.Error("the second approver sees the first answer")
	}
	_, err := e.Broker.Decide(t.Context(), e.Principals[brokertest.Approver], p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.Conflict)
	twin := broker.Principal{ID: "sso:7", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}, Also: []string{"7", strings.ToUpper(brokertest.Approver)}}
	_, err = e.Broker.Decide(t.Context(), twin, p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.Conflict) // the same person, signed in another way
	r = approve(t, e, brokertest.Second, p.RequestID, broker.Verdict{TTL: 60})
	if r.State != broker.RequestApproved || r.Granted.String() != "orders:eu/1:write" || r.GrantedTTL != 60 {
		t.Errorf("granted %s for %d s, state %s", r.Granted, r.GrantedTTL, r.State)
	}
}

//ebb:invariant I7 ebb computes the facts again before an approval counts, and refuses the approval if they have changed
func TestFactsThatChangedAreNotApproved(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	ann := e.Principals[brokertest.Approver]
	p := pending(t, s, "orders:eu/1:write")
	r, _ := e.Broker.Request(t.Context(), ann, p.RequestID)
	replay := s.Request(t, "orders:eu/1:read")
	if _, err := e.Broker.Token(t.Context(), replay); err != nil {
		t.Fatal(err)
	}
	_, err := e.Broker.Token(t.Context(), replay) // a replay: the task has a violation now
	kindOf(t, err, broker.InvalidProof)
	_, err = e.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true})
	kindOf(t, err, broker.Conflict)
	e.Clock.Add(time.Minute)
	_, err = s.Poll(t, p.DeferralCode.Reveal())
	kindOf(t, err, broker.InvalidGrant)
}

//ebb:invariant I12
func TestOpenRequestsAreCapped(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	for _, id := range []string{"1", "2", "3"} {
		pending(t, s, "orders:eu/"+id+":write")
	}
	_, err := s.AskDeferred(t, "orders:eu/4:write")
	kindOf(t, err, broker.TooMany)
	c, err := e.Broker.CompleteTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait)
	if err != nil || c.Withdrawn != 3 {
		t.Errorf("withdrawn %d (%v), want 3", c.Withdrawn, err)
	}
	rs, _ := e.Broker.Requests(t.Context(), e.Principals[brokertest.Auditor], broker.RequestFilter{TaskID: s.Task.ID})
	if slices.ContainsFunc(rs, func(r broker.Request) bool { return r.State != broker.RequestWithdrawn }) {
		t.Error("a request outlived its task")
	}
}

// Members of one rule's group must not approve for another's.
func TestEveryRuleIsAskedOfItsOwnPeople(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{Policies: map[string][]byte{"p.cedar": []byte(`
@id("eu") @ask("eu-owners")
permit (principal, action, resource in Ebb::Resource::"orders:eu/1");
@id("eu2") @ask("eu2-owners") @quorum("2")
permit (principal, action, resource in Ebb::Resource::"orders:eu/2");
`)}})
	s := e.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write orders:eu/2:write")
	person := func(id string, groups ...string) broker.Principal {
		return broker.Principal{ID: id, Roles: []broker.Role{broker.RoleApprover}, Groups: groups}
	}
	yes := func(who broker.Principal) broker.RequestState {
		r, err := e.Broker.Request(t.Context(), who, p.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = e.Broker.Decide(t.Context(), who, p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true}); err != nil {
			t.Fatal(err)
		}
		return r.State
	}
	for _, step := range []struct {
		who  broker.Principal
		want broker.RequestState
	}{
		{person("a", "eu-owners"), broker.RequestPending},
		{person("b", "eu-owners"), broker.RequestPending},
		{person("c", "eu2-owners"), broker.RequestPending},
		{person("d", "eu2-owners", "eu-owners"), broker.RequestApproved},
	} {
		if got := yes(step.who); got != step.want {
			t.Fatalf("after %s: %s, want %s", step.who.ID, got, step.want)
		}
	}
}
