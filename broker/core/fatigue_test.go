package core_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/issuance"
)

// onRecord counts entries of a kind about a task.
func onRecord(t *testing.T, e *brokertest.Env, kind, task string) int {
	t.Helper()
	n := 0
	for _, err := range e.Config.Store.Entries(t.Context(), broker.EntryFilter{Kind: kind, TaskID: task}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func taskNow(t *testing.T, e *brokertest.Env, id string) broker.Task {
	t.Helper()
	task, err := e.Broker.Task(t.Context(), e.Principals[brokertest.Auditor], id)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func deny(t *testing.T, e *brokertest.Env, id string) {
	t.Helper()
	if _, err := e.Broker.Decide(t.Context(), e.Principals[brokertest.Approver], id, broker.Verdict{Code: broker.NotNeeded, Note: "No."}); err != nil {
		t.Fatal(err)
	}
}

func scope(i int) string { return fmt.Sprintf("orders:eu/%d:write", i) }

// F4: three consecutive denials pause the task. An approval, or a resume by a person, resets the
// count.
func TestDenialsInARowPause(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Limits: broker.Limits{DenialsInRow: 3}})
	s := e.Open(t, brokertest.Spec())
	next := 0
	ask := func() string { next++; e.Clock.Add(time.Second); return pending(t, s, scope(next)).RequestID }
	deny(t, e, ask())
	deny(t, e, ask())
	approve(t, e, brokertest.Approver, ask(), broker.Verdict{})
	e.Clock.Add(time.Second)
	deny(t, e, ask())
	deny(t, e, ask())
	if got := taskNow(t, e, s.Task.ID); got.State != broker.TaskOpen {
		t.Fatalf("paused after two: %+v", got)
	}
	deny(t, e, ask())
	got := taskNow(t, e, s.Task.ID)
	if got.State != broker.TaskPaused || got.Cause != broker.CauseDenials || got.PausedBy != "ebb" || got.Reason == "" {
		t.Fatalf("%+v", got)
	}
	_, err := s.Ask(t, "orders:eu/1:read")
	if a := kindOf(t, err, broker.Denied).Advice; a == nil || a.Decision != "wait" || a.Code != broker.TaskHeld || a.RetryAfter <= 0 {
		t.Errorf("advice %+v", a)
	}
	for _, who := range []string{brokertest.Approver, brokertest.Runner2, brokertest.Auditor} {
		if _, err := e.Broker.ResumeTask(t.Context(), e.Principals[who], s.Task.ID); err == nil {
			t.Errorf("%s resumed it", who)
		}
	}
	e.Clock.Add(time.Second)
	owner := broker.Principal{ID: "sso:77", Also: []string{"Bo@example.com"}, Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}
	if task, err := e.Broker.ResumeTask(t.Context(), owner, s.Task.ID); err != nil || task.State != broker.TaskOpen || task.Cause != "" {
		t.Fatalf("the owner: %+v %v", task, err)
	}
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Errorf("resumed: %v", err)
	}
	deny(t, e, ask())
	deny(t, e, ask())
	if got := taskNow(t, e, s.Task.ID); got.State != broker.TaskOpen {
		t.Errorf("denials from before the resume count: %+v", got)
	}
	deny(t, e, ask())
	if n := onRecord(t, e, audit.TaskPaused, s.Task.ID); n != 2 {
		t.Errorf("paused %d times on the record, want 2", n)
	}
	// The owner cannot resume a task that an operator has paused.
	if _, err := e.Broker.PauseTask(t.Context(), e.Principals[brokertest.Operator], s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	_, err = e.Broker.ResumeTask(t.Context(), owner, s.Task.ID)
	kindOf(t, err, broker.Forbidden)
}

// F4: of many concurrent denials, one pauses the task, with one entry; after a resume, it takes as
// many again. Delegates share the count.
func TestManyDenialsAtOncePauseOnce(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Limits: broker.Limits{Denials: 20}, Policies: map[string][]byte{"p.cedar": []byte(`
@id("read") permit (principal, action, resource) when { context.action == "read" };`)}})
	s := e.Open(t, delegating())
	child := s.Delegate(t, ceiling("orders:eu/**:*"))
	burst := func() {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				from := s
				if i%2 == 0 {
					from = child
				}
				_, err := from.AskDeferred(t, scope(i))
				kindOf(t, err, broker.Denied)
			})
		}
		wg.Wait()
	}
	for round := 1; round < 3; round++ {
		if _, err := child.Ask(t, "orders:eu/1:read"); err != nil {
			t.Fatal(err)
		}
		burst()
		if got := taskNow(t, e, s.Task.ID); got.State != broker.TaskPaused || got.Cause != broker.CauseDenials {
			t.Fatalf("round %d: %+v", round, got)
		}
		if n := onRecord(t, e, audit.TaskPaused, s.Task.ID); n != round {
			t.Errorf("round %d: paused %d times on the record", round, n)
		}
		for _, from := range []*brokertest.Sandbox{s, child} {
			_, err := from.Ask(t, "orders:eu/1:read")
			kindOf(t, err, broker.Denied)
		}
		if _, err := e.Broker.ResumeTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// F4: N people deny at the same time: one pause, by the broker.
func TestRaceOfDenials(t *testing.T) {
	t.Parallel()
	spec := brokertest.Spec()
	spec.Caps.OpenRequests = 12
	e := brokertest.New(t, brokertest.Config{Limits: broker.Limits{DenialsInRow: 3}})
	s := e.Open(t, spec)
	var ids []string
	for i := range 12 {
		ids = append(ids, pending(t, s, scope(i)).RequestID)
	}
	e.Clock.Add(time.Second)
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() { deny(t, e, id) })
	}
	wg.Wait()
	if n := onRecord(t, e, audit.TaskPaused, s.Task.ID); n != 1 {
		t.Errorf("paused %d times on the record", n)
	}
	if got := taskNow(t, e, s.Task.ID); got.State != broker.TaskPaused || got.Cause != broker.CauseDenials {
		t.Errorf("%+v", got)
	}
}

// Acceptance check 25, F5: requests beyond the limit become one card, each is in the audit log and
// gets a response, and a task that continues is paused.
func TestAskingTooOftenIsOneCard(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Limits: broker.Limits{Asks: 10}})
	s := e.Open(t, brokertest.Spec())
	tok, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	ann, waited, refused := e.Principals[brokertest.Approver], 0, 0
	for i := range 14 {
		_, err := s.AskDeferred(t, scope(i))
		switch got := broker.AsError(err); {
		case got.Kind == broker.Pending:
			waited++
		case got.Advice == nil || got.Advice.Decision != "wait" || got.Advice.RetryAfter <= 0 || got.Advice.DoNotRetrySame || got.RetryAfter <= 0:
			t.Errorf("ask %d: %v, advice %+v", i, err, got.Advice)
		case got.Kind == broker.TooMany && got.Advice.Code == broker.AskedEnough, got.Kind == broker.Denied && got.Advice.Code == broker.TaskHeld:
			refused++
		default:
			t.Errorf("ask %d: %v", i, err)
		}
	}
	if waited != 3 || refused != 11 {
		t.Errorf("%d wait and %d were refused, want 3 and 11", waited, refused)
	}
	if n := onRecord(t, e, audit.RequestHeld, s.Task.ID); n != 8 {
		t.Errorf("%d are on the record as held back, want 8: the paused task's are refused before", n)
	}
	for who, want := range map[string]int{brokertest.Approver: 1, brokertest.Auditor: 1, brokertest.Runner: 1, brokertest.Runner2: 0} {
		cards, err := e.Broker.Throttled(t.Context(), e.Principals[who], false)
		if err != nil || len(cards) != want {
			t.Fatalf("%s sees %d cards (%v), want %d", who, len(cards), err, want)
		}
	}
	cards, _ := e.Broker.Throttled(t.Context(), ann, true)
	if c := cards[0]; !c.Paused() || !c.May || c.Waiting != 3 || c.Asked != 11 || c.Cause != broker.CauseAsks {
		t.Errorf("%+v", c)
	}
	if p, err := e.Broker.Waiting(t.Context(), ann, true, broker.WaitFilter{}); err != nil || len(p.Requests) != 0 || len(p.Counts) != 0 {
		t.Errorf("beside the card there are %d (%v) rows: %v", len(p.Requests), p.Counts, err)
	}
	if p, err := e.Broker.Waiting(t.Context(), ann, true, broker.WaitFilter{TaskID: s.Task.ID}); err != nil || len(p.Requests) != 3 {
		t.Errorf("of the task there are %d, %v", len(p.Requests), err)
	}
	if ms, err := e.Broker.Marks(t.Context()); err != nil || len(ms) != 0 {
		t.Errorf("people are told of %d (%v)", len(ms), err)
	}
	stranger := broker.Principal{ID: "eve", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}}
	owner := broker.Principal{ID: "BO@example.com", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"approvers"}}
	for _, who := range []broker.Principal{stranger, owner, e.Principals[brokertest.Auditor], e.Principals[brokertest.Runner2]} {
		if _, err := e.Broker.DenyAll(t.Context(), who, s.Task.ID, broker.NotNeeded, "No."); err == nil {
			t.Errorf("%s denied all", who.ID)
		}
		if _, err := e.Broker.StopTask(t.Context(), who, s.Task.ID, "why not", 0); err == nil {
			t.Errorf("%s stopped it", who.ID)
		}
	}
	_, err = e.Broker.DenyAll(t.Context(), ann, s.Task.ID, "because", "No.")
	kindOf(t, err, broker.Invalid)
	if n, err := e.Broker.DenyAll(t.Context(), ann, s.Task.ID, broker.NotNeeded, "One question at a time."); err != nil || n != 3 {
		t.Fatalf("denied %d (%v), want 3", n, err)
	}
	if n := onRecord(t, e, audit.RequestVoted, s.Task.ID); n != 3 {
		t.Errorf("%d answers are on the record", n)
	}
	_, err = e.Broker.DenyAll(t.Context(), ann, s.Task.ID, broker.NotNeeded, "No.")
	kindOf(t, err, broker.Conflict)
	if c, err := e.Broker.StopTask(t.Context(), ann, s.Task.ID, "asks too much", 0); err != nil || c.Revoked != 1 || c.Task.Cause != broker.CauseStopped || c.Task.ClosedBy != brokertest.Approver {
		t.Errorf("%+v %v", c, err)
	}
	if e.Active(t, tok.Token.Reveal()) {
		t.Error("a token outlived the stop")
	}
	if cards, _ := e.Broker.Throttled(t.Context(), ann, true); len(cards) != 0 {
		t.Errorf("the card stays: %+v", cards)
	}
}

// F5: the number of requests for approval for one owner in an hour is limited, over all tasks. The
// response names the time of the next free place, and then there is one.
func TestOwnerIsAskedForSoOften(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{Limits: broker.Limits{OwnerRequests: 2}})
	for i := range 2 {
		pending(t, e.Open(t, brokertest.Spec()), scope(i))
		e.Clock.Add(time.Minute)
	}
	s := e.Open(t, brokertest.Spec())
	_, err := s.AskDeferred(t, scope(3))
	got := kindOf(t, err, broker.TooMany)
	if got.Advice == nil || got.Advice.Code != broker.AskedEnough || got.Advice.RetryAfter != 58*60 || got.Advice.WouldAllow.String() != "" {
		t.Errorf("%v, advice %+v", got, got.Advice)
	}
	if cards, err := e.Broker.Throttled(t.Context(), e.Principals[brokertest.Auditor], false); err != nil || len(cards) != 1 || cards[0].Paused() || cards[0].Asked != 1 {
		t.Errorf("%+v %v", cards, err)
	}
	other := brokertest.Spec()
	other.Owner = "liu@example.com"
	pending(t, e.Open(t, other), scope(4))
	if _, err := s.AskDeferred(t, scope(3)); broker.AsError(err).Kind != broker.TooMany {
		t.Error(err)
	}
	e.Clock.Add(58 * time.Minute)
	if cards, _ := e.Broker.Throttled(t.Context(), e.Principals[brokertest.Auditor], false); len(cards) != 0 {
		t.Errorf("the card stays: %+v", cards)
	}
	fresh := e.Open(t, brokertest.Spec())
	pending(t, fresh, scope(3))
}

// Acceptance check 24: the response to a denial is data. The same request with other text is no new
// request during the cool-down, and does not restart it.
func TestOtherWordsAreTheSameRequest(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:read orders:eu/1:write")
	deny(t, e, p.RequestID)
	_, err := s.Poll(t, p.DeferralCode.Reveal())
	a := kindOf(t, err, broker.Denied).Advice
	if a == nil || a.Code != broker.NotNeeded || a.WouldAllow.String() != "orders:eu/1:read" || a.RetryAfter != 900 || !a.DoNotRetrySame {
		t.Fatalf("advice %+v", a)
	}
	left := a.RetryAfter
	for _, words := range []string{"urgent", "approved by security \u202e", "I need it for another reason altogether"} {
		e.Clock.Add(time.Minute)
		r := s.Request(t, "orders:eu/1:read orders:eu/1:write")
		r.Deferred, r.Reason = true, agenttext.From(words)
		_, err := e.Broker.Token(t.Context(), r)
		a := kindOf(t, err, broker.Denied).Advice
		if a == nil || a.RetryAfter != left-60 || a.Code != broker.NotNeeded || !a.DoNotRetrySame {
			t.Errorf("%q: advice %+v", words, a)
		}
		left -= 60
	}
	if p, err := e.Broker.Waiting(t.Context(), e.Principals[brokertest.Approver], true, broker.WaitFilter{}); err != nil || len(p.Requests) != 0 || len(p.Counts) != 0 {
		t.Errorf("%d rows (%v)", len(p.Requests), err)
	}
}

// Acceptance check 26: a request that a grant covers does not enter the queue, and the audit log
// names the grant.
func TestCoveredReachesNoQueue(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/*:write")
	approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{})
	e.Clock.Add(10 * time.Second)
	if _, err := s.Poll(t, p.DeferralCode.Reveal()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AskDeferred(t, "orders:eu/2:write"); err != nil {
		t.Fatal(err)
	}
	if p, err := e.Broker.Waiting(t.Context(), e.Principals[brokertest.Auditor], false, broker.WaitFilter{}); err != nil || len(p.Requests) != 0 {
		t.Errorf("%d wait (%v)", len(p.Requests), err)
	}
	var covered []string
	for en, err := range e.Config.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.LeaseIssued, TaskID: s.Task.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		covered = append(covered, issuance.CoveredBy(en))
	}
	if len(covered) != 2 || covered[0] != "" || covered[1] != p.RequestID {
		t.Errorf("%q", covered)
	}
}
