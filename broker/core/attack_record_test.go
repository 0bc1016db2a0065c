package core_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// I7: the taint of a task and the policy version are facts, too, and may change.
func TestFactsThatAnybodyChanges(t *testing.T) {
	t.Parallel()
	asks := func(id string) map[string][]byte {
		return map[string][]byte{"p.cedar": []byte(`@id("` + id + `") @ask("approvers") permit (principal, action, resource);`)}
	}
	for name, change := range map[string]func(e *brokertest.Env, s *brokertest.Sandbox){
		"taint": func(e *brokertest.Env, s *brokertest.Sandbox) {
			if _, err := e.Broker.TaintTask(t.Context(), e.Principals[brokertest.Runner], s.Task.ID, []string{"public-issue-comments"}); err != nil {
				t.Fatal(err)
			}
		},
		"policy": func(e *brokertest.Env, _ *brokertest.Sandbox) {
			set, err := policy.Load(map[string][]byte{"p.cedar": append(asks("ask")["p.cedar"], `@id("never") forbid (principal, action, resource) when { context.tool == "never" };`...)})
			if err != nil {
				t.Fatal(err)
			}
			e.Config.Policy.Replace(set)
		},
	} {
		e := brokertest.New(t, brokertest.Config{Policies: asks("ask")})
		s := e.Open(t, brokertest.Spec())
		p := pending(t, s, "orders:eu/1:write")
		ann := e.Principals[brokertest.Approver]
		r, err := e.Broker.Request(t.Context(), ann, p.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		change(e, s)
		if _, err := e.Broker.Decide(t.Context(), ann, p.RequestID, broker.Verdict{Approve: true, Digest: r.Digest, Target: r.Target(), Present: true}); err == nil || broker.AsError(err).Kind != broker.Conflict {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// I11, I9: the audit log names the actor and the facts of every action, and of an agent's text only
// the hash.
func TestRecordSaysWho(t *testing.T) {
	t.Parallel()
	e := brokertest.New(t, brokertest.Config{})
	s := e.Open(t, brokertest.Spec())
	only := func(kind, actor, has string) {
		t.Helper()
		es := entriesOf(t, e, s.Task.ID, kind)
		if len(es) != 1 || es[0].Actor != actor || !strings.Contains(string(es[0].Data), has) {
			t.Errorf("%s: got %+v, want one by %s with %s", kind, es, actor, has)
		}
	}
	_, err := s.Ask(t, "orders:eu/1:write")
	kindOf(t, err, broker.AskRequired)
	only(audit.TokenAsk, s.Task.Sandbox.ID, "orders:eu/1:write")
	p := pending(t, s, "orders:eu/1:write")
	pending(t, s, "orders:eu/1:write")
	only(audit.RequestRepeated, s.Task.Sandbox.ID, "")
	var made struct {
		Reason string `json:"reason_sha256"`
	}
	if err := json.Unmarshal(entriesOf(t, e, s.Task.ID, audit.RequestCreated)[0].Data, &made); err != nil || len(made.Reason) != 64 {
		t.Errorf("of the reason there is %q, %v", made.Reason, err)
	}
	r := approve(t, e, brokertest.Approver, p.RequestID, broker.Verdict{})
	ann := e.Principals[brokertest.Approver].ID
	only(audit.RequestVoted, ann, r.Digest)
	only(audit.RequestApproved, ann, "")
	if _, err := e.Broker.PauseTask(t.Context(), e.Principals[brokertest.Operator], s.Task.ID, "let me look"); err != nil {
		t.Fatal(err)
	}
	only(audit.TaskPaused, e.Principals[brokertest.Operator].ID, "let me look")
	if _, err := e.Broker.StopTask(t.Context(), e.Principals[brokertest.Operator], s.Task.ID, "it was an attack", 0); err != nil {
		t.Fatal(err)
	}
	only(audit.TaskClosed, e.Principals[brokertest.Operator].ID, "it was an attack")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := e.Broker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range e.Config.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.BrokerStopped}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("the end of the broker is on the record %d times", n)
	}
}
