package core_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// A runner that opens tasks without closing any uses up its own share, not the stores.
//
//ebb:invariant I12 The number of open tasks of a runner is limited
func TestAttackRunnerOpensWithoutEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Limits: broker.Limits{RunnerTasks: 3}})
	open := func(runner string) (broker.Task, error) {
		task, _, err := x.Broker.OpenTask(t.Context(), x.who(runner), brokertest.Spec())
		return task, err
	}
	var first broker.Task
	for i := range 3 {
		task, err := open(brokertest.Runner)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = task
		}
	}
	for range 2 {
		_, err := open(brokertest.Runner)
		if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 {
			t.Error("no Retry-After")
		}
	}
	if _, err := open(brokertest.Runner2); err != nil {
		t.Errorf("another runner: %v", err)
	}
	if _, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), first.ID, broker.DefaultWait); err != nil {
		t.Fatal(err)
	}
	if _, err := open(brokertest.Runner); err != nil {
		t.Errorf("after an end: %v", err)
	}
	for _, d := range x.Broker.Ready(t.Context()) {
		if d.Name == "pending_ends" {
			t.Errorf("a refused task has a pending end: %s", d.Warning)
		}
	}
}

// A task that reads many sources: policy sees a limited set with a marker, the audit log has every
// name, and the loss of the LiveStore changes nothing.
func TestAttackTaintWithoutEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	for i := range 10 {
		var sources []string
		for j := range 16 {
			sources = append(sources, fmt.Sprintf("source-%02d-%02d", i, j))
		}
		if _, err := x.Broker.TaintTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, sources); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Broker.TaintTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, []string{broker.MoreTaint}); err == nil {
		t.Error("a runner may report the marker")
	}
	taint := func() []string {
		live, err := x.memory.get().Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
		if err != nil {
			t.Fatal(err)
		}
		return live.Taint
	}
	before := taint()
	if len(before) != broker.MaxTaint+1 || before[0] != broker.MoreTaint {
		t.Errorf("%d names, the first %q", len(before), before[0])
	}
	if n := len(entries(t, x, broker.EntryFilter{Kind: audit.TaskTainted, TaskID: s.Task.ID})); n != 10 {
		t.Errorf("%d entries, want 10", n)
	}
	x.memory.lose()
	x.replica(t)
	if after := taint(); !slices.Equal(after, before) {
		t.Errorf("after a loss: %v, before: %v", after, before)
	}
}

// Constant polling, and polling with a code of another key, are refused before any read.
func TestAttackPollingWithoutEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	p := pending(t, s, "orders:eu/1:write")
	code := p.DeferralCode.Reveal()
	_, err := s.Poll(t, code)
	kindOf(t, err, broker.Pending)
	thief := *s
	thief.Key = brokertest.NewKey(t)
	reads := func() int { return x.store.count("Requests") + x.store.count("Tasks") + x.store.count("Append") }
	before := reads()
	for range 20 {
		_, err := s.Poll(t, code)
		if slow := kindOf(t, err, broker.SlowDown); slow.RetryAfter <= 0 || slow.Pending.Interval <= 0 {
			t.Errorf("%+v", slow)
		}
		r := s.Request(t, "orders:eu/1:write")
		_, err = x.Broker.Poll(t.Context(), approval.PollRequest{Code: code, Subject: r.Subject, Possession: r.Possession})
		kindOf(t, err, broker.SlowDown)
		_, err = thief.Poll(t, code)
		kindOf(t, err, broker.InvalidGrant)
	}
	if n := reads() - before; n != 0 {
		t.Errorf("60 polls reached the database %d times", n)
	}
	x.Clock.Add(10 * time.Minute)
	_, err = s.Poll(t, code)
	kindOf(t, err, broker.Pending)
}

// Ids of sandboxes are easy to invent: requests with them, or with a real id and another key, are
// refused before the database is asked.
func TestAttackMadeUpSandboxes(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	key := brokertest.NewKey(t)
	reads := func() int {
		return x.store.count("Tasks") + x.store.count("Leases") + x.store.count("Requests") + x.store.count("Append")
	}
	before := reads()
	for i := range 50 {
		client := fmt.Sprintf("sbx_%032x", i)
		if i%2 == 1 {
			client = s.Task.Sandbox.ID
		}
		r := s.Request(t, "orders:eu/1:read")
		r.Subject = broker.Subject{Assertion: x.Assertion(t, client, key), Fault: broker.Unauthenticated}
		_, err := x.Broker.Token(t.Context(), r)
		kindOf(t, err, broker.Unauthenticated)
		err = x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &r.Subject}, "x")
		kindOf(t, err, broker.Unauthenticated)
	}
	if n := reads() - before; n != 0 {
		t.Errorf("100 requests of strangers reached the database %d times", n)
	}
}

// Callers that the issuer knows and ebb does not must not fill the LiveStore.
func TestAttackStrangersFillTheLiveStore(t *testing.T) {
	t.Parallel()
	start := time.Now().UTC().Truncate(time.Second)
	issuer, _, attestors := sso(t, start)
	x := attacked(t, brokertest.Config{Start: start, Attestors: attestors})
	withPeople(t, x, person("ann@example.com", map[string]string{"sub": "ann"}, broker.RoleApprover))
	before := x.liveStore.count("Admit")
	_, err := x.Broker.PrincipalExchange(t.Context(), issuer.Token(attesttest.Claims{"sub": "mallory", "aud": brokertest.Issuer}), x.Prove(t, brokertest.NewKey(t)))
	kindOf(t, err, broker.Invalid)
	if n := x.liveStore.count("Admit") - before; n != 0 {
		t.Errorf("a stranger caused %d writes to the live store", n)
	}
}

// A runner names another runner's owner and floods: the other runner's tasks continue.
func TestAttackStarvingAnotherRunnersOwner(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{Limits: broker.Limits{OwnerPerMin: 20}})
	victim := x.Open(t, brokertest.Spec())
	task, ticket, err := x.Broker.OpenTask(t.Context(), x.who(brokertest.Runner2), brokertest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	flood := &brokertest.Sandbox{Env: x.Env, Key: brokertest.NewKey(t)}
	en, err := x.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, flood.Key))
	if err != nil {
		t.Fatal(err)
	}
	flood.Task, flood.TaskToken = en.Task, en.Token.Reveal()
	for range 25 {
		_, err = flood.Ask(t, "orders:eu/1:read")
	}
	kindOf(t, err, broker.TooMany)
	if _, err := victim.Ask(t, "orders:eu/1:read"); err != nil {
		t.Errorf("another runner's task is starved: %v", err)
	}
}

// Requests of a sandbox beyond its rate are refused in this process: they must not fill the memory
// that all tasks share.
//
//ebb:invariant I12
func TestAttackFloodFillsTheLiveStore(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Caps.MintsPerMinute = 5
	s := x.Open(t, spec)
	var err error
	for range 10 {
		_, err = s.Ask(t, "orders:eu/1:read")
	}
	kindOf(t, err, broker.TooMany)
	before := x.liveStore.count("Admit")
	for range 30 {
		_, err = s.Ask(t, "orders:eu/1:read")
		if e := kindOf(t, err, broker.TooMany); e.RetryAfter <= 0 {
			t.Fatal("no Retry-After")
		}
	}
	if n := x.liveStore.count("Admit") - before; n > 5 {
		t.Errorf("30 requests beyond the rate reached the live store %d times", n)
	}
	x.Clock.Add(time.Minute)
	if _, err := s.Ask(t, "orders:eu/1:read"); err != nil {
		t.Error(err)
	}
}

// The same with client assertions, which are stored for minutes.
func TestAttackFloodOfAssertions(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	client := s.Task.Sandbox.ID
	revoke := func(id string) error {
		return x.Broker.RevokeToken(t.Context(), broker.Revoker{Subject: &broker.Subject{Assertion: x.Assertion(t, client, s.Key), ClientID: id, Fault: broker.Unauthenticated}}, "x")
	}
	kindOf(t, revoke("sbx_"+strings.Repeat("0", 32)), broker.Unauthenticated) // H23: another client_id
	var err error
	for range 1300 {
		if err = revoke(client); err != nil {
			break
		}
	}
	kindOf(t, err, broker.TooMany)
}
