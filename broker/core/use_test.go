package core_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// inHand is a provider that injects and also issues tokens.
type inHand struct{ *counted }

func (inHand) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}}
}

// TestUse: egress adds a credential only for its own sandbox, while it lives and its task is open,
// and never in doubt.
//
//ebb:invariant I2 The egress proxy uses no credential of a task that is paused or has ended
//ebb:invariant I2 The egress proxy uses no lease that has expired or was revoked
//ebb:invariant I2 The egress proxy uses no lease of a task or tool other than the caller's own
//ebb:invariant I2 The egress proxy uses no lease whose credential was issued to the sandbox itself
//ebb:invariant I6 Egress uses no credential when its state cannot be determined, and reports the error as unavailable instead of denied
func TestUse(t *testing.T) {
	t.Parallel()
	const api = "https://api.example.com/"
	x := attacked(t, brokertest.Config{
		Egress: true, Policies: map[string][]byte{"p.cedar": []byte(`@id("all") @why("all") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{
			"stripe": {Driver: injecting(t), Kind: "static", Resource: api}, "hand": {Driver: inHand{injecting(t)}, Kind: "static", Resource: api},
		},
	})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:* hand:**:*")
	s, other := x.Open(t, spec), x.Open(t, spec)
	lease := func(scope, tool string) string {
		r := s.Request(t, scope)
		r.Tool = tool
		tok, err := x.Broker.Token(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return tok.LeaseID
	}
	use := func(task, tool, id string) error {
		_, err := x.Broker.Use(t.Context(), broker.Caller{TaskID: task, Tool: tool}, id)
		return err
	}
	free, gits := lease("stripe:charges:read", ""), lease("stripe:charges:read", "git")
	r := s.Request(t, "hand:charges:read")
	r.Delivery = policy.DeliveryToken
	tok, err := x.Broker.Token(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	hand := tok.LeaseID
	mine := s.Task.ID
	for _, c := range []struct {
		name, task, tool, lease string
		ok                      bool
	}{
		{"its own", mine, "", free, true},
		{"any tool", mine, "curl", free, true},
		{"the tool", mine, "git", gits, true},
		{"another tool", mine, "curl", gits, false},
		{"another task", other.Task.ID, "", free, false},
		{"no task", "", "", free, false},
		{"in the sandbox's hand", mine, "", hand, false},
		{"unknown", mine, "", "lse_" + strings.Repeat("0", 32), false},
		{"none", mine, "", "", false},
	} {
		if err := use(c.task, c.tool, c.lease); (err == nil) != c.ok || err != nil && broker.AsError(err).Kind != broker.Denied {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	runner := x.who(brokertest.Runner)
	if _, err := x.Broker.PauseTask(t.Context(), runner, mine, "lunch"); err != nil {
		t.Fatal(err)
	}
	kindOf(t, use(mine, "", free), broker.Denied)
	if _, err := x.Broker.ResumeTask(t.Context(), runner, mine); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"Admit", "Status"} {
		x.liveStore.on(op, func() error { return errors.New("connection refused") })
		kindOf(t, use(mine, "", free), broker.Unavailable)
		x.liveStore.on(op, nil)
	}
	if err := use(mine, "", free); err != nil {
		t.Errorf("resumed: %v", err)
	}
	if _, err := x.Broker.RevokeLease(t.Context(), x.who(brokertest.Operator), gits, "leak"); err != nil {
		t.Fatal(err)
	}
	kindOf(t, use(mine, "git", gits), broker.Denied)
	x.Clock.Add(50 * time.Minute) // the maximum lifetime of a credential has passed, its task is open
	kindOf(t, use(mine, "", free), broker.Denied)
	if _, err := x.Broker.CompleteTask(t.Context(), runner, mine, 0); err != nil {
		t.Fatal(err)
	}
	kindOf(t, use(mine, "", free), broker.Denied)
}
