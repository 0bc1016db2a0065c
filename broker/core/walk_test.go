package core_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// kindOf asserts that err is a broker error of a kind.
func kindOf(t *testing.T, err error, want broker.Kind) *broker.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %s", want)
	}
	e := broker.AsError(err)
	if e.Kind != want {
		t.Fatalf("got %s (%v), want %s", e.Kind, err, want)
	}
	return e
}

//ebb:invariant I2
func TestOneTaskFromSandboxToNothingLeft(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	read, err := s.Ask(t, "orders:eu/42:read")
	if err != nil {
		t.Fatal(err)
	}
	if read.Type != "DPoP" || read.Scopes.String() != "orders:eu/42:read" || read.ExpiresIn <= 0 || read.ExpiresIn > 900 {
		t.Errorf("token answer %+v", read)
	}
	if !e.Active(t, read.Token.Reveal()) {
		t.Error("a new token is inactive")
	}
	write := approved(t, e, s, "orders:eu/42:write")
	if !e.Active(t, write.Token.Reveal()) {
		t.Error("an approved token is inactive")
	}
	c, err := e.Broker.CompleteTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait)
	if err != nil {
		t.Fatal(err)
	}
	if c.Revoked != 2 || c.AlreadyExpired != 0 || c.Already || len(c.Credentials) != 2 {
		t.Errorf("completion %+v", c)
	}
	for _, l := range c.Credentials {
		if l.State != broker.LeaseRevoked || l.Cause != broker.CauseCompleted || l.RevokedAt.IsZero() {
			t.Errorf("lease after the end: %+v", l)
		}
	}
	for _, tok := range []broker.Token{read, write} {
		if e.Active(t, tok.Token.Reveal()) {
			t.Error("a token outlived its task")
		}
	}
	_, err = s.Ask(t, "orders:eu/42:read")
	kindOf(t, err, broker.Invalid)
	again, err := e.Broker.CompleteTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, broker.DefaultWait)
	if err != nil || !again.Already || again.Revoked != 2 {
		t.Errorf("completing twice: %+v %v", again, err)
	}
}

// approved requests a token, lets Approver approve it, and redeems it.
func approved(t *testing.T, e *brokertest.Env, s *brokertest.Sandbox, scope string) broker.Token {
	t.Helper()
	p := pending(t, s, scope)
	approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{})
	tok, err := s.Poll(t, p.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func pending(t *testing.T, s *brokertest.Sandbox, scope string) *broker.PendingInfo {
	t.Helper()
	_, err := s.AskDeferred(t, scope)
	return kindOf(t, err, broker.Pending).Pending
}

func approve(t *testing.T, e *brokertest.Env, who, id string, v broker.Verdict) broker.Request {
	t.Helper()
	r, err := e.Broker.Request(t.Context(), e.Principals[who], id)
	if err != nil {
		t.Fatal(err)
	}
	v.Approve, v.Digest, v.Target, v.Present = true, r.Digest, r.Target(), true
	r, err = e.Broker.Decide(t.Context(), e.Principals[who], id, v)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTicketsAreSingleUse(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	spec := brokertest.Spec()
	task, ticket, err := e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], spec)
	if err != nil {
		t.Fatal(err)
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		p := e.Prove(t, brokertest.NewKey(t))
		wg.Go(func() {
			if _, err := e.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, p); err == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d of 16 redeemed one ticket", won.Load())
	}
	another, err := e.Broker.NewTicket(t.Context(), e.Principals[brokertest.Runner], task.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(another.Ticket.Reveal())}, e.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.InvalidEvidence) // it has its sandbox

	task, ticket, err = e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], spec)
	if err != nil {
		t.Fatal(err)
	}
	other := e.Open(t, spec)
	_, err = e.Broker.Enrol(t.Context(), other.Task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, e.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.InvalidEvidence) // a ticket is for its own task

	task, ticket, _ = e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], spec)
	e.Clock.Add(61 * time.Second)
	_, err = e.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, e.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.InvalidEvidence) // too late
}

func TestStolenTaskTokenBuysNothing(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	thief := *s
	thief.Key = brokertest.NewKey(t)
	_, err := thief.Ask(t, "orders:eu/42:read")
	kindOf(t, err, broker.Invalid)

	r := s.Request(t, "orders:eu/42:read")
	if _, err := e.Broker.Token(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	_, err = e.Broker.Token(t.Context(), r) // the same proof again
	kindOf(t, err, broker.InvalidProof)
}

//ebb:invariant I5
func TestScopesOutsideTheFrameAreRefused(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("orders:eu/*:read")
	s := e.Open(t, spec)
	for _, scope := range []string{"orders:us/1:read", "orders:eu/**:read", "orders:eu/1:write", "nowhere:eu/1:read", "orders:eu/1:read mail:inbox:read"} {
		_, err := s.Ask(t, scope)
		kindOf(t, err, broker.InvalidScope)
	}
	r := s.Request(t, "orders:eu/1:read")
	r.Resources = []string{brokertest.Mail}
	_, err := e.Broker.Token(t.Context(), r)
	kindOf(t, err, broker.InvalidTarget)
}

//ebb:invariant I5
func TestNarrowingNeverWidens(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	wide, err := s.Ask(t, "orders:eu/1:read orders:eu/2:read")
	if err != nil {
		t.Fatal(err)
	}
	narrow := func(scope string, ttl time.Duration) (broker.Token, error) {
		r := s.Request(t, scope)
		r.Subject = broker.Subject{AccessToken: wide.Token.Reveal(), Fault: broker.Invalid}
		r.TTL = ttl
		return e.Broker.Token(t.Context(), r)
	}
	tok, err := narrow("orders:eu/1:read", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if tok.ExpiresIn > wide.ExpiresIn {
		t.Errorf("the narrowed token lives %d s, its parent %d s", tok.ExpiresIn, wide.ExpiresIn)
	}
	_, err = narrow("orders:eu/3:read", 0)
	kindOf(t, err, broker.InvalidScope)
	if err := e.Broker.RevokeToken(t.Context(), broker.Revoker{Principal: ptr(e.Principals[brokertest.Operator])}, wide.Token.Reveal()); err != nil {
		t.Fatal(err)
	}
	_, err = narrow("orders:eu/1:read", 0)
	kindOf(t, err, broker.Invalid)
}

func ptr[T any](v T) *T { return &v }

//ebb:invariant I4
func TestDeadlineAndHeartbeatEndTasks(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{Run: true})
	spec := brokertest.Spec()
	spec.TTL = 60
	short := e.Open(t, spec)
	spec.TTL, spec.Heartbeat = 3600, 30
	silent := e.Open(t, spec)
	beating := e.Open(t, spec)
	var tokens []broker.Token
	for _, s := range []*brokertest.Sandbox{short, silent, beating} {
		tok, err := s.Ask(t, "orders:eu/1:read")
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, tok)
	}
	if tokens[0].ExpiresIn > 60 {
		t.Errorf("a token outlives its task's deadline by %d s", tokens[0].ExpiresIn-60)
	}
	e.Clock.Add(20 * time.Second)
	if _, err := e.Broker.Beat(t.Context(), e.Principals[brokertest.Runner], beating.Task.ID); err != nil {
		t.Fatal(err)
	}
	e.Clock.Add(20 * time.Second)
	waitClosed(t, e, silent.Task.ID, broker.CauseHeartbeat)
	if e.Active(t, tokens[1].Token.Reveal()) || !e.Active(t, tokens[2].Token.Reveal()) {
		t.Error("the wrong task ended")
	}
	if _, err := e.Broker.Beat(t.Context(), e.Principals[brokertest.Runner], beating.Task.ID); err != nil {
		t.Fatal(err)
	}
	e.Clock.Add(21 * time.Second)
	_, err := short.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Invalid)
	waitClosed(t, e, short.Task.ID, broker.CauseDeadline)
}

func waitClosed(t *testing.T, e *brokertest.Env, id string, cause broker.Cause) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		task, err := e.Broker.Task(t.Context(), e.Principals[brokertest.Operator], id)
		if err != nil {
			t.Fatal(err)
		}
		if task.State == broker.TaskClosed {
			if task.Cause != cause {
				t.Fatalf("closed by %s, want %s", task.Cause, cause)
			}
			return
		}
		time.Sleep(50 * time.Millisecond) // the janitor runs each second of real time
	}
	t.Fatal("the task was not ended")
}

func TestPausedTaskMintsNothingAndKeepsItsTokens(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	runner := e.Principals[brokertest.Runner]
	tok, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker.PauseTask(t.Context(), runner, s.Task.ID, "lunch"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Denied)
	if !e.Active(t, tok.Token.Reveal()) {
		t.Error("pausing killed a token")
	}
	if _, err := e.Broker.ResumeTask(t.Context(), runner, s.Task.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Fatal(err)
	}
	_, err = e.Broker.CompleteTask(t.Context(), e.Principals[brokertest.Runner2], s.Task.ID, broker.DefaultWait)
	kindOf(t, err, broker.NotFound) // the task of another runner is reported as not found
	if _, err := e.Broker.StopTask(t.Context(), e.Principals[brokertest.Operator], s.Task.ID, "leak", broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	_, err = e.Broker.ResumeTask(t.Context(), runner, s.Task.ID)
	kindOf(t, err, broker.Conflict)
}

func TestBadTasksAreRefused(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	for name, spoil := range map[string]func(*broker.TaskSpec){
		"no name":           func(s *broker.TaskSpec) { s.Name = "" },
		"long name":         func(s *broker.TaskSpec) { s.Name = strings.Repeat("x", 81) },
		"bidi name":         func(s *broker.TaskSpec) { s.Name = "a\u202eb" },
		"kind":              func(s *broker.TaskSpec) { s.Kind = "Bug Fix" },
		"no ttl":            func(s *broker.TaskSpec) { s.TTL = 0 },
		"long ttl":          func(s *broker.TaskSpec) { s.TTL = 90000 },
		"overflowing ttl":   func(s *broker.TaskSpec) { s.TTL = 1 << 62 },
		"no ceiling":        func(s *broker.TaskSpec) { s.Ceiling = scopes.Set{} },
		"unknown attestor":  func(s *broker.TaskSpec) { s.Expect.Attestor = "nope" },
		"negative cap":      func(s *broker.TaskSpec) { s.Caps.Leases = -1 },
		"huge cap":          func(s *broker.TaskSpec) { s.Caps.Leases = 1 << 40 },
		"label":             func(s *broker.TaskSpec) { s.Labels = map[string]string{"a b": "c"} },
		"negative beat":     func(s *broker.TaskSpec) { s.Heartbeat = -1 },
		"empty selectors":   func(s *broker.TaskSpec) { s.Expect.Selectors = map[string]string{"a": ""} },
		"control character": func(s *broker.TaskSpec) { s.Owner = "a\x00b" },
	} {
		spec := brokertest.Spec()
		spoil(&spec)
		if _, _, err := e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], spec); err == nil {
			t.Errorf("%s: the task was opened", name)
		} else if k := broker.AsError(err).Kind; k != broker.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, who := range []string{brokertest.Approver, brokertest.Auditor, brokertest.Server} {
		_, _, err := e.Broker.OpenTask(t.Context(), e.Principals[who], brokertest.Spec())
		kindOf(t, err, broker.Forbidden)
	}
	_, _, err := e.Broker.OpenTask(t.Context(), broker.Principal{}, brokertest.Spec())
	kindOf(t, err, broker.Unauthenticated)
}

//ebb:invariant I1 A credential whose lease the live store refuses is not returned to the caller
//ebb:invariant I12 The number of live credentials of a task is limited
func TestCapsHold(t *testing.T) {
	e := brokertest.New(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Caps = broker.Caps{Leases: 3, MintsPerMinute: 10}
	s := e.Open(t, spec) // counts one
	for i := range 3 {
		if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
			t.Fatalf("token %d: %v", i, err)
		}
	}
	_, err := s.Ask(t, "orders:eu/1:read")
	if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 || !errors.Is(err, broker.ErrCap) {
		t.Errorf("%+v", e)
	}
	leases, err := e.Broker.Leases(t.Context(), e.Principals[brokertest.Auditor], broker.LeaseFilter{TaskID: s.Task.ID})
	if err != nil {
		t.Fatal(err)
	}
	live := slices.DeleteFunc(leases, func(l broker.Lease) bool { return l.State != broker.LeaseLive })
	if len(live) != 3 {
		t.Errorf("%d leases are live on the record, want 3", len(live))
	}
	for range 10 {
		if _, err = s.Ask(t, "orders:eu/1:read"); err != nil && broker.AsError(err).Kind == broker.TooMany && !errors.Is(err, broker.ErrCap) {
			return
		}
	}
	t.Errorf("the rate of 10 a minute was never felt: %v", err)
}
