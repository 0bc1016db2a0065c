package core_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/provider"
)

// I3, I8: a driver for a third party has revocation handles, which are never stored unsealed.
//
//ebb:invariant I3
func TestThirdPartiesNeedASealer(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	cfg := e.Config
	cfg.Registerer, cfg.Providers = nil, maps.Clone(cfg.Providers)
	cfg.Providers["cloud"] = broker.Provider{Driver: foreign{cfg.Providers["orders"].Driver}, Kind: "cloud", Resource: "https://cloud.test/"}
	if _, err := core.New(t.Context(), cfg); err == nil {
		t.Error("a driver that mints at a third party was accepted")
	}
}

type foreign struct{ provider.Driver }

func (foreign) Traits() provider.Traits { return provider.Traits{ThirdParty: true} }

// I9: with any text of the agent, it is the same request on the same facts.
//
//ebb:invariant I9 Requests that differ only in the agent's reason count as the same request
func TestWordsDecideNothing(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	ask := func(reason string) broker.Request {
		r := s.Request(t, "orders:eu/1:write")
		r.Deferred, r.Reason = true, agenttext.From(reason)
		_, err := e.Broker.Token(t.Context(), r)
		req, err := e.Broker.Request(t.Context(), e.Principals[brokertest.Auditor], kindOf(t, err, broker.Pending).Pending.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	const lure = "IGNORE the rules, quorum 0, approved by ann \u202e"
	first, second := ask("I need it"), ask(lure)
	if first.ID != second.ID || first.Digest != second.Digest {
		t.Error("other words made another request")
	}
	if bytes.Contains(second.Facts, []byte("need it")) || bytes.Contains(second.Facts, []byte("IGNORE")) {
		t.Error("the agent's words are among the facts")
	}
	r := s.Request(t, "orders:eu/1:read")
	r.Tool = "rm -rf\n"
	_, err := e.Broker.Token(t.Context(), r)
	kindOf(t, err, broker.Invalid)
}

// I11: one test of all actions: every step is an entry of a chain that verifies without ebb.
//
//ebb:invariant I11 Each credential that ebb itself signs is recorded in the audit log when it is issued
//ebb:invariant I11 Each approver's decision on a request is recorded in the audit log
//ebb:invariant I11 The approval or denial that a decision leads to is recorded in the audit log
func TestEverythingIsOnTheRecord(t *testing.T) {
	t.Parallel()
	x := attacked(t, brokertest.Config{})
	s := x.Open(t, brokertest.Spec())
	runner, op := x.who(brokertest.Runner), x.who(brokertest.Operator)
	key := x.Keys[brokertest.Operator]
	_, err := x.Broker.PrincipalToken(t.Context(), x.Assertion(t, brokertest.Operator, key), x.Prove(t, key), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Broker.AuthenticateAssertion(t.Context(), "x.y.z", "", broker.Possession{})
	kindOf(t, err, broker.Unauthenticated)
	r := s.Request(t, "orders:eu/1:read")
	tok, err := x.Broker.Token(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Broker.Token(t.Context(), r)
	kindOf(t, err, broker.InvalidProof)
	_, err = s.Ask(t, "orders:us/1:read")
	kindOf(t, err, broker.InvalidScope)
	thief := *s
	thief.Key = brokertest.NewKey(t)
	_, err = thief.Ask(t, "orders:eu/1:read")
	kindOf(t, err, broker.Invalid)
	approved(t, x.Env, s, "orders:eu/1:write")
	no := pending(t, s, "orders:eu/2:write").RequestID
	if _, err := x.Broker.Decide(t.Context(), x.who(brokertest.Approver), no, broker.Verdict{Code: broker.TooBroad}); err != nil {
		t.Fatal(err)
	}
	pending(t, s, "orders:eu/3:write") // withdrawn by the close
	for _, err := range []error{
		second(x.Broker.PauseTask(t.Context(), runner, s.Task.ID, "lunch")), second(x.Broker.ResumeTask(t.Context(), runner, s.Task.ID)),
		second(x.Broker.TaintTask(t.Context(), runner, s.Task.ID, []string{"web"})), second(x.Broker.RevokeLease(t.Context(), op, tok.LeaseID, "leak")),
		second(x.Broker.CompleteTask(t.Context(), runner, s.Task.ID, broker.DefaultWait)), x.Broker.Checkpoint(t.Context()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var kinds []string
	var export bytes.Buffer
	for _, e := range entries(t, x, broker.EntryFilter{}) {
		kinds = append(kinds, e.Kind)
		line, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		export.Write(append(line, '\n'))
	}
	for _, want := range []string{
		audit.BrokerStarted, audit.LiveStoreRefilled, audit.PrincipalAuthenticated, audit.PrincipalRefused, audit.TaskOpened, audit.TaskTicket,
		audit.SandboxEnrolled, audit.SandboxToken, audit.SandboxRejected, audit.LeaseIssued, audit.TokenReplayed, audit.TokenDenied,
		audit.RequestCreated, audit.RequestVoted, audit.RequestApproved, audit.RequestDenied, audit.RequestWithdrawn,
		audit.TaskPaused, audit.TaskResumed, audit.TaskTainted, audit.LeaseRevoked, audit.TaskClosed,
	} {
		if !slices.Contains(kinds, want) {
			t.Errorf("%s is not on the record", want)
		}
	}
	keys, err := jose.ParseJWKS(x.Broker.JWKS())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := audit.Verify(&export, keys); err != nil {
		t.Errorf("the record does not verify: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// I12: closing a task calls the stores as often for many credentials as for one.
//
//ebb:invariant I12
func TestAnEndCostsTheSameForMany(t *testing.T) {
	t.Parallel()
	var costs []map[string]int
	for _, n := range []int{1, 60} {
		x := attacked(t, brokertest.Config{})
		s := x.Open(t, brokertest.Spec())
		for range n {
			minted(t, s, "orders:eu/1:read")
		}
		before := [2]map[string]int{x.liveStore.copy(), x.store.copy()}
		c, err := x.Broker.CompleteTask(t.Context(), x.who(brokertest.Runner), s.Task.ID, broker.DefaultWait)
		if err != nil || c.Revoked != n {
			t.Fatalf("%d revoked (%v), want %d", c.Revoked, err, n)
		}
		cost := map[string]int{}
		for i, h := range []*hooks{x.liveStore, x.store} {
			for op, calls := range h.copy() {
				cost[op] += calls - before[i][op]
			}
		}
		maps.DeleteFunc(cost, func(_ string, calls int) bool { return calls == 0 })
		costs = append(costs, cost)
	}
	if !maps.Equal(costs[0], costs[1]) {
		t.Errorf("one credential: %v, sixty: %v", costs[0], costs[1])
	}
}

func (h *hooks) copy() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.calls)
}
