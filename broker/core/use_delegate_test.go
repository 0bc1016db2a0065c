package core_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/scopes"
)

// TestUseBelow: the limits of an ancestor hold for a delegate, at every replica, and delegating
// does not increase the uses of one task.
//
//ebb:invariant I2 The egress proxy uses no credential of a delegated task if an ancestor task is paused or has ended
//ebb:invariant I12 The rate of egress requests of a task is limited, including the requests of tasks that it delegated
func TestUseBelow(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{
		Egress: true, Policies: map[string][]byte{"p.cedar": []byte(`@id("all") @why("all") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{"stripe": {Driver: injecting(t), Kind: "static", Resource: "https://api.example.com/"}},
		Limits:    broker.Limits{UsesPerMinute: 10},
	})
	replica := x.replica(t)
	spec := delegating()
	spec.Ceiling = scopes.MustParseSet("stripe:**:*")
	top := x.Open(t, spec)
	middle := ceiling("stripe:charges:read")
	middle.Depth = 1
	mid := top.Delegate(t, middle)
	low, sibling := mid.Delegate(t, ceiling("stripe:charges:read")), top.Delegate(t, ceiling("stripe:charges:read"))
	use := func(s *brokertest.Sandbox) func(*core.Broker) error {
		id := minted(t, s, "stripe:charges:read").LeaseID
		return func(b *core.Broker) error {
			_, err := b.Use(t.Context(), broker.Caller{TaskID: s.Task.ID, Above: s.Task.Ancestors}, id)
			return err
		}
	}
	lows, siblings := use(low), use(sibling)
	both := func(what string, f func(*core.Broker) error, want broker.Kind) {
		t.Helper()
		for name, b := range map[string]*core.Broker{"here": x.Broker, "at a replica": replica} {
			if err := f(b); want == "" && err != nil || want != "" && (err == nil || broker.AsError(err).Kind != want) {
				t.Errorf("%s, %s: %v", what, name, err)
			}
		}
	}
	both("open", lows, "")
	runner := x.who(brokertest.Runner)
	for _, up := range []*brokertest.Sandbox{top, mid} {
		if _, err := x.Broker.PauseTask(t.Context(), runner, up.Task.ID, "look"); err != nil {
			t.Fatal(err)
		}
		both("paused above", lows, broker.Denied)
		if _, err := x.Broker.ResumeTask(t.Context(), runner, up.Task.ID); err != nil {
			t.Fatal(err)
		}
	}
	both("resumed", lows, "")
	both("a sibling", siblings, "") // the last of this minute, including refused ones
	both("too often, over all of the tree", siblings, broker.TooMany)
	x.Clock.Add(time.Minute)
	both("a minute later", lows, "")
	// The close of an ancestor holds before the tasks below it are closed.
	if _, _, err := x.Config.LiveStore.SetState(t.Context(), mid.Task.ID, broker.TaskClosed, x.Clock.Now(), x.Clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	both("over above", lows, broker.Denied)
	both("over beside", siblings, "")
}
