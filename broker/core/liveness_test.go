package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// lantern is an attestor that watches sandboxes: its evidence is their name, and they exit when the
// test says so.
type lantern struct {
	mu      sync.Mutex
	dead    map[string]chan struct{}
	fail    error // of Watch
	watches int
}

func newLantern() *lantern { return &lantern{dead: map[string]chan struct{}{}} }

func (l *lantern) Attest(_ context.Context, e attest.Evidence) (attest.Identity, error) {
	name := string(e.Document)
	if len(name) == 0 {
		return attest.Identity{}, attest.Reject(attest.ReasonMalformed, "there is no name", nil)
	}
	return attest.Identity{Attestor: "lantern", Subject: name, Class: attest.ClassKernel, Selectors: map[string]string{"name": name}, Key: e.Key.JKT}, nil
}

func (l *lantern) Watch(ctx context.Context, id attest.Identity) (attest.Exit, error) {
	l.mu.Lock()
	l.watches++
	err, gone := l.fail, l.of(id.Selectors["name"])
	l.mu.Unlock()
	if err != nil {
		return attest.Exit{}, err
	}
	select {
	case <-ctx.Done():
		return attest.Exit{}, ctx.Err()
	case <-gone:
		return attest.Exit{How: "put_out"}, nil
	}
}

func (l *lantern) of(name string) chan struct{} {
	if l.dead[name] == nil {
		l.dead[name] = make(chan struct{})
	}
	return l.dead[name]
}

func (l *lantern) putOut(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.of(name))
}

func (l *lantern) failing(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

func (l *lantern) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watches
}

// lit returns a task whose sandbox has enrolled with a lantern's evidence, and a live token of it.
func lit(t *testing.T, e *brokertest.Env, name string) (*brokertest.Sandbox, string) {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ticket, spec.Expect = false, broker.Expect{Attestor: "lantern", Selectors: map[string]string{"name": name}}
	task, _, err := e.Broker.OpenTask(t.Context(), e.Principals[brokertest.Runner], spec)
	if err != nil {
		t.Fatal(err)
	}
	s := &brokertest.Sandbox{Env: e, Key: brokertest.NewKey(t), Task: task}
	shine(t, s, name)
	token, err := s.Ask(t, "orders:eu/42:read")
	if err != nil {
		t.Fatal(err)
	}
	return s, token.Token.Reveal()
}

// shine shows fresh evidence and gets a task token for it.
func shine(t *testing.T, s *brokertest.Sandbox, name string) broker.Enrolment {
	t.Helper()
	en, err := s.Env.Broker.Enrol(t.Context(), s.Task.ID, attest.Evidence{Attestor: "lantern", Document: []byte(name)}, s.Env.Prove(t, s.Key))
	if err != nil {
		t.Fatal(err)
	}
	s.TaskToken = en.Token.Reveal()
	return en
}

func stateOf(t *testing.T, e *brokertest.Env, id string) broker.Task {
	t.Helper()
	ts, err := e.Config.Store.Tasks(t.Context(), broker.TaskFilter{IDs: []string{id}})
	if err != nil || len(ts) != 1 {
		t.Fatalf("got %d tasks, %v", len(ts), err)
	}
	return ts[0]
}

func entriesOf(t *testing.T, e *brokertest.Env, taskID, kind string) (out []audit.Entry) {
	t.Helper()
	for entry, err := range e.Config.Store.Entries(t.Context(), broker.EntryFilter{TaskID: taskID, Kind: kind}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, entry)
	}
	return out
}

func TestExitEndsTheTask(t *testing.T) {
	t.Parallel()
	l := newLantern()
	e := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"lantern": l}})
	s, token := lit(t, e, "a")
	other, alive := lit(t, e, "b")
	l.putOut("a")
	eventually(t, "its task is closed", func() bool { return stateOf(t, e, s.Task.ID).State == broker.TaskClosed })
	if got := stateOf(t, e, s.Task.ID); got.Cause != broker.CauseExited || got.Reason != "put_out" {
		t.Errorf("got cause %q, reason %q", got.Cause, got.Reason)
	}
	if e.Active(t, token) || !e.Active(t, alive) || stateOf(t, e, other.Task.ID).State != broker.TaskOpen {
		t.Error("the end of one sandbox is not the end of its task alone")
	}
	if _, err := s.Ask(t, "orders:eu/42:read"); err == nil {
		t.Error("a dead sandbox mints")
	}
	if n := len(entriesOf(t, e, s.Task.ID, audit.SandboxExited)); n != 1 {
		t.Errorf("%d entries %s", n, audit.SandboxExited)
	}
	seen := map[string]bool{}
	families, err := e.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		seen[f.GetName()] = true
	}
	for _, name := range []string{"ebb_sandbox_exits_total", "ebb_sandbox_exit_delay_seconds", "ebb_sandboxes_watched"} {
		if !seen[name] {
			t.Errorf("no %s", name)
		}
	}
}

// A watch that fails is retried and closes no task; one of another attestor is not retried.
func TestDoubtIsNoExit(t *testing.T) {
	t.Parallel()
	l := newLantern()
	l.failing(errors.New("the API server answers 500"))
	e := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"lantern": l}})
	s, _ := lit(t, e, "a")
	eventually(t, "it is tried again", func() bool { return l.asked() > 1 })
	if got := stateOf(t, e, s.Task.ID); got.State != broker.TaskOpen {
		t.Fatalf("the task is %s", got.State)
	}
	l.failing(nil)
	l.putOut("a")
	eventually(t, "its task is closed", func() bool { return stateOf(t, e, s.Task.ID).State == broker.TaskClosed })

	l.failing(attest.ErrElsewhere)
	before := l.asked()
	far, _ := lit(t, e, "far")
	eventually(t, "it is looked for", func() bool { return l.asked() > before })
	l.putOut("far")
	if got := stateOf(t, e, far.Task.ID); got.State != broker.TaskOpen {
		t.Errorf("a sandbox that is elsewhere: its task is %s", got.State)
	}
}

// The exit of a sandbox while no broker runs, and of one that another replica enrolled, is noticed
// by the next broker.
func TestExitIsSeenAfterARestart(t *testing.T) {
	t.Parallel()
	l := newLantern()
	attestors := map[string]attest.Attestor{"lantern": l}
	first := brokertest.New(t, brokertest.Config{RealTime: true, Attestors: attestors})
	s, token := lit(t, first, "a")
	l.putOut("a")
	next := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: attestors,
		LiveStore: first.Config.LiveStore, Store: first.Config.Store, ApprovalStore: first.Config.ApprovalStore, Clock: first.Clock})
	eventually(t, "its task is closed", func() bool { return stateOf(t, next, s.Task.ID).State == broker.TaskClosed })
	if first.Active(t, token) {
		t.Error("the other replica still takes its token")
	}
}

func TestExitPausesWhereThatIsWanted(t *testing.T) {
	t.Parallel()
	l := newLantern()
	e := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"lantern": l},
		Liveness: map[string]broker.Liveness{"lantern": {OnSandboxExit: broker.ActionPause}}})
	s, token := lit(t, e, "a")
	l.putOut("a")
	eventually(t, "its task is paused", func() bool { return stateOf(t, e, s.Task.ID).State == broker.TaskPaused })
	if _, err := s.Ask(t, "orders:eu/42:read"); err == nil {
		t.Error("a paused task mints")
	}
	if !e.Active(t, token) {
		t.Error("a pause ended a token")
	}
	if _, err := e.Broker.ResumeTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID); err != nil {
		t.Errorf("its runner may not resume it: %v", err)
	}
}

func TestExitMayMeanNothing(t *testing.T) {
	t.Parallel()
	l := newLantern()
	e := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: map[string]attest.Attestor{"lantern": l},
		Liveness: map[string]broker.Liveness{"lantern": {OnSandboxExit: broker.ActionNothing}}})
	lit(t, e, "a")
	if l.asked() != 0 {
		t.Error("watched for nothing")
	}
}

// An exit that sixteen replicas report is recorded once.
func TestRaceOfExits(t *testing.T) {
	t.Parallel()
	l := newLantern()
	attestors := map[string]attest.Attestor{"lantern": l}
	first := brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: attestors})
	for range 3 {
		brokertest.New(t, brokertest.Config{RealTime: true, Run: true, Attestors: attestors,
			LiveStore: first.Config.LiveStore, Store: first.Config.Store, ApprovalStore: first.Config.ApprovalStore, Clock: first.Clock})
	}
	s, token := lit(t, first, "a")
	l.putOut("a")
	eventually(t, "its task is closed", func() bool { return stateOf(t, first, s.Task.ID).State == broker.TaskClosed })
	if first.Active(t, token) {
		t.Error("its token lives")
	}
	if n := len(entriesOf(t, first, s.Task.ID, audit.TaskClosed)); n != 1 {
		t.Errorf("the task was closed %d times", n)
	}
}

// TestReattest: no credential outlives the validity of its evidence; afterwards nothing is minted
// until there is fresh evidence with the same key.
func TestReattest(t *testing.T) {
	t.Parallel()
	l := newLantern()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	e := brokertest.New(t, brokertest.Config{Start: start, Attestors: map[string]attest.Attestor{"lantern": l},
		Liveness: map[string]broker.Liveness{"lantern": {Reattest: time.Minute}}})
	s, token := lit(t, e, "a")
	i, err := e.Broker.Introspect(t.Context(), e.Principals[brokertest.Operator], token)
	if err != nil || !i.Active {
		t.Fatal(i, err)
	}
	e.Clock.Add(59 * time.Second)
	if !e.Active(t, token) {
		t.Error("it ended early")
	}
	got, err := s.Ask(t, "orders:eu/42:read")
	if err != nil || got.ExpiresIn > 1 {
		t.Errorf("a second before: %v, for %d s", err, got.ExpiresIn)
	}
	e.Clock.Add(2 * time.Second)
	if e.Active(t, token) {
		t.Error("a token outlives the evidence it was given on")
	}
	if _, err := s.Ask(t, "orders:eu/42:read"); err == nil {
		t.Error("a sandbox mints that has not attested again")
	}
	thief := &brokertest.Sandbox{Env: e, Key: brokertest.NewKey(t), Task: s.Task}
	if _, err := e.Broker.Enrol(t.Context(), s.Task.ID, attest.Evidence{Attestor: "lantern", Document: []byte("a")}, e.Prove(t, thief.Key)); err == nil {
		t.Error("another key attested again")
	}
	en := shine(t, s, "a")
	if want := e.Clock.Now().Add(time.Minute); en.ExpiresAt.After(want) {
		t.Errorf("the task token lives until %v, the evidence until %v", en.ExpiresAt, want)
	}
	if _, err := s.Ask(t, "orders:eu/42:read"); err != nil {
		t.Errorf("after fresh evidence: %v", err)
	}
}

// TestMissedAttestation: if so configured, a sandbox that misses its re-attestation deadline loses its task and
// all live credentials; one that attests in time keeps them.
func TestMissedAttestation(t *testing.T) {
	t.Parallel()
	l := newLantern()
	e := brokertest.New(t, brokertest.Config{Attestors: map[string]attest.Attestor{"lantern": l},
		Liveness: map[string]broker.Liveness{"lantern": {Reattest: 10 * time.Minute, OnMissedAttestation: broker.ActionComplete}}})
	gone, _ := lit(t, e, "gone")
	stays, _ := lit(t, e, "stays")
	direct, _ := lit(t, e, "direct")
	e.Clock.Add(9 * time.Minute)
	shine(t, stays, "stays")
	// A sandbox that shows its evidence with each request has no task token to renew.
	r := direct.Request(t, "orders:eu/42:read")
	r.Subject = broker.Subject{TaskID: direct.Task.ID, Evidence: &attest.Evidence{Attestor: "lantern", Document: []byte("direct")}, Fault: broker.InvalidGrant}
	if _, err := e.Broker.Token(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	e.Clock.Add(time.Minute)
	e.Broker.WatchOpen(t.Context())
	if got := stateOf(t, e, gone.Task.ID); got.State != broker.TaskOpen {
		t.Errorf("it lost its task while its evidence still vouched: %s, %s", got.State, got.Cause)
	}
	e.Clock.Add(time.Minute)
	e.Broker.WatchOpen(t.Context())
	if got := stateOf(t, e, gone.Task.ID).Cause; got != broker.CauseMissedAttestation {
		t.Errorf("got cause %q", got)
	}
	for _, s := range []*brokertest.Sandbox{stays, direct} {
		if got := stateOf(t, e, s.Task.ID); got.State != broker.TaskOpen {
			t.Errorf("a sandbox that attested again lost its task: %s, %s", got.State, got.Cause)
		}
	}
}

func TestLivenessConfig(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]map[string]broker.Liveness{
		"no attestor":         {"nobody": {Reattest: time.Minute}},
		"unknown exit action": {"enroll": {OnSandboxExit: "explode"}},
		"strange lapse":       {"lantern": {OnMissedAttestation: "pause", Reattest: time.Minute}},
		"never lapses":        {"lantern": {OnMissedAttestation: broker.ActionComplete}},
		"too short":           {"lantern": {Reattest: time.Second}},
		"a ticket":            {"enroll": {Reattest: time.Minute}},
	} {
		e := brokertest.New(t, brokertest.Config{Attestors: map[string]attest.Attestor{"lantern": newLantern()}})
		c := e.Config
		c.Liveness, c.Registerer = l, nil
		if _, err := core.New(t.Context(), c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
