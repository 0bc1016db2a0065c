package core_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// delegating returns a task whose sandbox may delegate.
func delegating() broker.TaskSpec {
	spec := brokertest.Spec()
	spec.Delegation = &broker.Delegation{Expect: broker.Expect{Attestor: "enroll"}, Depth: 2}
	return spec
}

func ceiling(text string) broker.DelegationSpec {
	return broker.DelegationSpec{Ceiling: scopes.MustParseSet(text)}
}

func TestDelegateWalk(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, delegating())
	spec := ceiling("orders:eu/1:* orders:eu/2:read")
	spec.TTL, spec.Depth = 10*time.Minute, 1
	child := s.Delegate(t, spec)
	grandchild := child.Delegate(t, ceiling("orders:eu/1:read"))
	for name, got := range map[string]broker.Task{"child": child.Task, "grandchild": grandchild.Task} {
		if got.Owner != s.Task.Owner || got.Kind != s.Task.Kind || got.Runner != s.Task.Runner || got.Deadline.After(x.Clock.Now().Add(10*time.Minute)) {
			t.Errorf("%s is %+v", name, got)
		}
	}
	tok := minted(t, grandchild, "orders:eu/1:read")
	var claims struct {
		Sub, ClientID string
		Act           struct {
			Sub string
			Act struct {
				Sub string
				Act struct{ Sub string }
			}
		}
	}
	i, err := x.Broker.Introspect(t.Context(), x.who(brokertest.Operator), tok.Token.Reveal())
	if err == nil {
		err = json.Unmarshal(i.Claims, &claims)
	}
	if err != nil || claims.Sub != s.Task.Owner || claims.Act.Sub != grandchild.Task.Sandbox.ID || claims.Act.Act.Sub != child.Task.Sandbox.ID || claims.Act.Act.Act.Sub != s.Task.Sandbox.ID {
		t.Errorf("the token says %+v (%v)", claims, err)
	}
	_, err = child.Ask(t, "orders:eu/2:write")
	kindOf(t, err, broker.InvalidScope)
	own := minted(t, s, "orders:eu/9:read")
	sibling := s.Delegate(t, ceiling("mail:**:read"))
	// The close of a task in the middle closes the tasks below it, and no others.
	c, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), child.Task.ID, broker.DefaultWait)
	if err != nil || c.Delegated != 1 || c.Revoked != 1 || x.Active(t, tok.Token.Reveal()) || !x.Active(t, own.Token.Reveal()) {
		t.Errorf("the end of the child: %+v (%v)", c, err)
	}
	x.Clock.Add(time.Second) // expired leases are not counted again
	for range 2 {
		if c, err = x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait); err != nil || c.Delegated != 1 || c.Revoked != 1 {
			t.Errorf("the end of all: %+v (%v)", c, err)
		}
	}
	_, err = sibling.Ask(t, "mail:inbox:read")
	kindOf(t, err, broker.Invalid)
	for _, task := range []*brokertest.Sandbox{grandchild, sibling} {
		got, err := x.Broker.Task(t.Context(), x.who(brokertest.Auditor), task.Task.ID)
		if err != nil || got.State != broker.TaskClosed || got.Cause != broker.CauseParent {
			t.Errorf("a delegated task is %s, %s (%v)", got.State, got.Cause, err)
		}
	}
	// The delegated part is in the audit log of both tasks, also that it may be delegated again.
	for i, kind := range []string{audit.TaskDelegated, audit.TaskOpened} {
		es := entries(t, x, broker.EntryFilter{TaskID: []string{s.Task.ID, child.Task.ID}[i], Kind: kind})
		if len(es) != 2-i || es[0].Actor != s.Task.Sandbox.ID || !strings.Contains(string(es[0].Data), `"depth":1`) || !strings.Contains(string(es[0].Data), child.Task.ID) {
			t.Errorf("%s is on the record as %+v", kind, es)
		}
	}
}

// For any request, at any depth: no delegated task is wider than any task above it.
func TestDelegationNeverWidens(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	r := rand.New(rand.NewPCG(1, 2))
	pool := []string{"orders:eu/**:*", "orders:eu/*:read", "orders:eu/1:read", "orders:eu/1:write", "orders:us/1:read", "mail:**:read", "mail:inbox:read", "orders:**:*"}
	pick := func() (set string) {
		for range 1 + r.IntN(2) {
			set += " " + pool[r.IntN(len(pool))]
		}
		return set[1:]
	}
	made := 0
	for range 60 {
		spec := delegating()
		spec.Caps.Uses, spec.Delegation.Depth, spec.TTL = r.IntN(6), 1+r.IntN(4), broker.Seconds(60+r.IntN(600))
		if r.IntN(2) == 0 {
			spec.Delegation.Expect.Selectors = map[string]string{"sub": "1"}
		}
		line := []*brokertest.Sandbox{x.Open(t, spec)}
		for range 5 {
			parent := line[len(line)-1]
			ask := ceiling(pick())
			ask.TTL, ask.Uses, ask.Depth = time.Duration(r.IntN(1000))*time.Second, r.IntN(5)-1, r.IntN(5)-1
			if r.IntN(3) == 0 {
				ask.Selectors = map[string]string{"sub": fmt.Sprint(r.IntN(2)), "task_id": "2"}
			}
			task, _, err := parent.AskDelegate(t, ask)
			if err != nil {
				continue
			}
			made++
			for _, above := range line {
				narrower(t, above.Task, task)
			}
			if len(task.Expect.Selectors) > 0 {
				break // tickets prove no selectors
			}
			next := &brokertest.Sandbox{Env: x.Env, Key: brokertest.NewKey(t), Task: task}
			ticket, err := x.Broker.NewTicket(t.Context(), x.who(brokertest.Runner), task.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			en, err := x.Broker.Enrol(t.Context(), "", attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, x.Prove(t, next.Key))
			if err != nil {
				t.Fatal(err)
			}
			next.TaskToken = en.Token.Reveal()
			line = append(line, next)
		}
	}
	if made < 30 {
		t.Errorf("only %d delegations came about: the test shows nothing", made)
	}
}

func narrower(t *testing.T, above, task broker.Task) {
	t.Helper()
	switch {
	case !above.Ceiling.Covers(task.Ceiling):
		t.Errorf("ceiling %s under %s", task.Ceiling, above.Ceiling)
	case task.Deadline.After(above.Deadline):
		t.Errorf("deadline %s under %s", task.Deadline, above.Deadline)
	case above.Caps.Uses > 0 && (task.Caps.Uses == 0 || task.Caps.Uses > above.Caps.Uses):
		t.Errorf("%d uses under %d", task.Caps.Uses, above.Caps.Uses)
	case task.Caps.Leases > above.Caps.Leases || task.Caps.MintsPerMinute > above.Caps.MintsPerMinute || task.Caps.OpenRequests > above.Caps.OpenRequests:
		t.Errorf("caps %+v under %+v", task.Caps, above.Caps)
	case task.Delegation != nil && task.Delegation.Depth >= above.Delegation.Depth:
		t.Errorf("depth %d under %d", task.Delegation.Depth, above.Delegation.Depth)
	case task.Expect.Attestor != above.Delegation.Expect.Attestor:
		t.Errorf("attestor %s under %s", task.Expect.Attestor, above.Delegation.Expect.Attestor)
	}
	for k, v := range above.Delegation.Expect.Selectors {
		if task.Expect.Selectors[k] != v {
			t.Errorf("selector %s=%q under %q", k, task.Expect.Selectors[k], v)
		}
	}
}

func TestAttackDelegation(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	none := x.Open(t, brokertest.Spec())
	_, _, err := none.AskDelegate(t, ceiling("orders:eu/1:read"))
	kindOf(t, err, broker.Forbidden)

	s := x.Open(t, delegating())
	for name, c := range map[string]struct {
		change func(*broker.DelegationSpec)
		want   broker.Kind
	}{
		"nothing":           {func(d *broker.DelegationSpec) { d.Ceiling = scopes.Set{} }, broker.InvalidScope},
		"wider":             {func(d *broker.DelegationSpec) { d.Ceiling = scopes.MustParseSet("orders:us/1:read") }, broker.InvalidScope},
		"as deep as itself": {func(d *broker.DelegationSpec) { d.Depth = 2 }, broker.Invalid},
		"negative depth":    {func(d *broker.DelegationSpec) { d.Depth = -1 }, broker.Invalid},
		"negative uses":     {func(d *broker.DelegationSpec) { d.Uses = -1 }, broker.Invalid},
		"negative ttl":      {func(d *broker.DelegationSpec) { d.TTL = -1 }, broker.Invalid},
		"no time":           {func(d *broker.DelegationSpec) { d.TTL = time.Millisecond }, broker.Denied},
		"empty selector":    {func(d *broker.DelegationSpec) { d.Selectors = map[string]string{"": ""} }, broker.Invalid},
	} {
		d := ceiling("orders:eu/1:read")
		c.change(&d)
		if _, _, err := s.AskDelegate(t, d); err == nil || broker.AsError(err).Kind != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}

	// An access token, even a valid one, does not identify the sandbox.
	tok := minted(t, s, "orders:eu/1:read")
	_, _, err = x.Broker.Delegate(t.Context(), broker.Subject{AccessToken: tok.Token.Reveal(), Fault: broker.Invalid}, x.Prove(t, s.Key), ceiling("orders:eu/1:read"))
	kindOf(t, err, broker.Invalid)
	// Neither does a stolen task token with another key.
	r := s.Request(t, "orders:eu/1:read")
	_, _, err = x.Broker.Delegate(t.Context(), r.Subject, x.Prove(t, brokertest.NewKey(t)), ceiling("orders:eu/1:read"))
	kindOf(t, err, broker.Invalid)

	child := s.Delegate(t, ceiling("orders:eu/1:read"))
	_, _, err = child.AskDelegate(t, ceiling("orders:eu/1:read"))
	kindOf(t, err, broker.Forbidden)

	// A pause or taint of an ancestor holds for the delegate.
	if _, err := x.Broker.PauseTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	_, err = child.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Denied)
	_, _, err = s.AskDelegate(t, ceiling("orders:eu/1:read"))
	kindOf(t, err, broker.Denied)
	if _, err := x.Broker.ResumeTask(t.Context(), x.who(brokertest.Runner), s.Task.ID); err != nil {
		t.Fatal(err)
	}
	minted(t, child, "orders:eu/1:read")
	if _, err := x.Broker.TaintTask(t.Context(), x.who(brokertest.Runner), child.Task.ID, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	live, err := x.Config.LiveStore.Admit(t.Context(), broker.Admission{TaskID: s.Task.ID})
	if err != nil || len(live.Taint) != 1 {
		t.Errorf("the delegating task has read %v (%v)", live.Taint, err)
	}
}

// A delegate's requests count for its ancestors: many delegates do not exceed the limits of one
// task.
func TestAttackDelegatesMultiplyNothing(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	spec := delegating()
	spec.Caps.MintsPerMinute, spec.Caps.Uses, spec.Delegation.Open = 30, 6, 3
	s := x.Open(t, spec)
	var all []*brokertest.Sandbox
	for range 3 {
		d := ceiling("orders:eu/1:read")
		d.Uses = 1
		all = append(all, s.Delegate(t, d))
	}
	d := ceiling("orders:eu/1:read")
	d.Uses = 1
	_, _, err := s.AskDelegate(t, d)
	kindOf(t, err, broker.TooMany)
	minted(t, all[0], "orders:eu/1:read")
	_, err = all[0].Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Denied)
	for range 3 {
		minted(t, s, "orders:eu/1:read")
	}
	_, err = s.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Denied)
	for i := range 30 {
		if _, err = all[i%3].Ask(t, "orders:eu/1:read"); err != nil && broker.AsError(err).Kind == broker.TooMany {
			return
		}
	}
	t.Errorf("three delegates ask more often than their parent may: %v", err)
}

// A process that dies in the middle of a close leaves no task open for long.
func TestDelegatesOfTheDeadAreEnded(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, delegating())
	child := s.Delegate(t, ceiling("orders:eu/1:read"))
	tok := minted(t, child, "orders:eu/1:read")
	// Only the parent is closed, as after a kill following its commit.
	if err := x.db.Append(t.Context(), broker.Record{MoveTask: &broker.TaskMove{ID: s.Task.ID, State: broker.TaskClosed, Cause: broker.CauseCompleted, By: "ci", At: x.Clock.Now()}}); err != nil {
		t.Fatal(err)
	}
	x.memory.lose()
	b := x.replica(t)
	x.janitor(t, b)
	eventually(t, "the delegate is over", func() bool {
		got, err := b.Task(t.Context(), x.who(brokertest.Auditor), child.Task.ID)
		return err == nil && got.State == broker.TaskClosed && got.Cause == broker.CauseParent
	})
	if activeAt(t, x, b, tok.Token.Reveal()) {
		t.Error("a token outlived the task above its own")
	}
}

// A close and a concurrent delegation: when the close has been acknowledged, no task below it is
// open.
func TestRaceDelegateAgainstTheEnd(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	for range 8 {
		s := x.Open(t, delegating())
		done := make(chan struct{})
		for range 4 {
			go func() {
				r := s.Request(t, "orders:eu/1:read")
				_, _, _ = x.Broker.Delegate(context.WithoutCancel(t.Context()), r.Subject, r.Possession, ceiling("orders:eu/1:read"))
				done <- struct{}{}
			}()
		}
		if _, err := x.replica(t).CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			<-done
		}
		ts, err := x.db.Tasks(t.Context(), broker.TaskFilter{Below: s.Task.ID, Open: true})
		if err != nil || len(ts) > 0 {
			t.Fatalf("%d tasks are open below a closed one (%v)", len(ts), err)
		}
	}
}
