package core_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/scopes"
)

// judging is a driver whose requests egress judges by their bodies.
type judging struct{ provider.Driver }

var _ provider.ContentJudge = judging{}

func (judging) Injects(scopes.Set) bool                                      { return true }
func (judging) Inject(context.Context, *http.Request, provider.Target) error { return nil }
func (judging) ScopesFor(string, *http.Request) []scopes.Scope               { return nil }
func (judging) Judged(s scopes.Set) bool                                     { return strings.Contains(s.String(), "/refs/") }
func (judging) Judge(context.Context, *http.Request, provider.Target) (content.Facts, provider.Reply, error) {
	return content.Facts{}, nil, nil
}

func (judging) Describe(s scopes.Scope) (provider.Effect, error) {
	if s.Action() == "read" {
		return provider.Reading(), nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Yes}, nil
}

// judgedHouse returns a broker with the provider "up", whose requests egress judges. The policy allows
// reads, and asks people about everything else.
func judgedHouse(t *testing.T) *brokertest.Env {
	t.Helper()
	party := instant()
	party.ByHandle, party.URL = true, brokertest.NewUpstream(t, time.Now).URL
	return brokertest.New(t, brokertest.Config{
		Egress: true, Run: true, Limits: broker.Limits{HighRiskQuorum: 2}, BreakGlass: approval.BreakGlassConfig{Groups: []string{"approvers"}},
		Policies: map[string][]byte{"p.cedar": []byte(`
@id("reads") @why("reads") permit (principal, action == Ebb::Action::"read", resource);
@id("others") @why("others") @ask("approvers") permit (principal, action == Ebb::Action::"write", resource);`)},
		Providers: map[string]broker.Provider{"up": {Driver: judging{party.Driver()}, Kind: "test", Resource: "https://up.test/"}},
	})
}

// pushOf returns the facts of a push that creates a branch.
func pushOf(branch string) content.Facts {
	return content.Facts{Kind: "gitpush", Operations: []content.Operation{{Action: "create", Object: "refs/heads/" + branch}}}
}

// refuses records a refused request of a task, as egress does, and returns its content.
func refuses(t *testing.T, x *brokertest.Env, task broker.Task, f content.Facts) (id string) {
	t.Helper()
	data, err := json.Marshal(broker.Exchange{Content: &f, Reason: "not_allowed"})
	if err != nil {
		t.Fatal(err)
	}
	e := audit.Entry{At: x.Clock.Now(), Kind: audit.EgressDenied, Actor: broker.SandboxID(task.ID), TaskID: task.ID, Data: data}
	if err := x.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{e}}); err != nil {
		t.Fatal(err)
	}
	return broker.ContentID(f)
}

// asks requests a credential for a content; "" = without a limit to one content.
func asks(t *testing.T, x *brokertest.Env, s *brokertest.Sandbox, scope, id string) (broker.Token, error) {
	t.Helper()
	r := s.Request(t, scope)
	r.Content, r.Deferred = id, true
	return x.Broker.Token(t.Context(), r)
}

// onlyFor checks that a lease is good for one content only.
func onlyFor(t *testing.T, x *brokertest.Env, s *brokertest.Sandbox, leaseID string, f content.Facts) {
	t.Helper()
	use, err := x.Broker.Use(t.Context(), broker.Caller{TaskID: s.Task.ID, Above: s.Task.Ancestors}, leaseID)
	if err != nil || use.Lease.Content != f.Sum() {
		t.Errorf("the lease is for the content %q, want %s: %v", use.Lease.Content, f.Sum(), err)
	}
}

// Under break-glass, a person who approves a content without others approves only this content.
//
//ebb:invariant I7 An approval under break-glass for one content is used for no other request
func TestBreakGlassForOneContent(t *testing.T) {
	t.Parallel()
	x := judgedHouse(t)
	s := x.Open(t, upSpec())
	wanted, other := pushOf("wanted"), pushOf("other")
	ids := []string{refuses(t, x, s.Task, wanted), refuses(t, x, s.Task, other)}
	const scope = "up:acme/**:write"
	_, err := asks(t, x, s, scope, ids[0])
	if kind(err) != broker.Pending {
		t.Fatal(err)
	}
	pending := broker.AsError(err).Pending
	g, ann := begun(t, x, brokertest.Approver), x.Principals[brokertest.Approver]
	req, err := x.Broker.Request(t.Context(), ann, pending.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := x.Broker.Decide(t.Context(), ann, req.ID, broker.Verdict{Approve: true, Digest: req.Digest, Target: req.Target(), Present: true, BreakGlass: g.ID}); err != nil || out.State != broker.RequestApproved {
		t.Fatal(out.State, err)
	}
	tok, err := s.Poll(t, pending.DeferralCode.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	onlyFor(t, x, s, tok.LeaseID, wanted)
	for _, id := range []string{"", ids[1]} {
		if _, err := asks(t, x, s, scope, id); kind(err) != broker.Pending {
			t.Errorf("the content %q after the approval of another one: %v", id, err)
		}
	}
}

// A task can ask only for contents that were refused for the task itself, and not for those of tasks
// above, below or beside it, whether people are asked or not.
//
//ebb:invariant I7 A delegated task gets no credential for a content of the tasks above, below or beside it
func TestContentsOfDelegates(t *testing.T) {
	t.Parallel()
	x := judgedHouse(t)
	spec := delegating()
	spec.Ceiling = scopes.MustParseSet("up:**:*")
	top := x.Open(t, spec)
	middle := ceiling("up:**:*")
	middle.Depth = 1
	child := top.Delegate(t, middle)
	tasks := map[string]*brokertest.Sandbox{"top": top, "child": child, "grandchild": child.Delegate(t, ceiling("up:**:*")), "sibling": top.Delegate(t, ceiling("up:**:*"))}
	ids := map[string]string{}
	for name, s := range tasks {
		ids[name] = refuses(t, x, s.Task, pushOf(name))
	}
	for name, s := range tasks {
		for of, id := range ids {
			tok, err := asks(t, x, s, "up:acme/web:read", id)
			if of == name {
				if err != nil {
					t.Fatalf("%s asks for its own content: %v", name, err)
				}
				onlyFor(t, x, s, tok.LeaseID, pushOf(name))
				continue
			}
			if _, asked := asks(t, x, s, "up:acme/web:write", id); kind(err) != broker.Invalid || kind(asked) != broker.Invalid {
				t.Errorf("%s asks for the content of %s: %v, %v", name, of, err, asked)
			}
		}
	}
	if _, err := asks(t, x, child, "up:acme/web:write", ids["child"]); kind(err) != broker.Pending {
		t.Errorf("no person is asked about the content of the child: %v", err)
	}
}

// A self-test names the part that enforces a scope.
func TestSelfTestOfJudgedScopes(t *testing.T) {
	t.Parallel()
	x := judgedHouse(t)
	for scope, want := range map[string]string{"up:acme/web/refs/heads/a:write": "Only egress enforces the scope", "up:acme/web:read": "The scope can be expressed exactly."} {
		tr, err := x.Broker.SelfTestProvider(t.Context(), x.Principals[brokertest.Operator], "up", provideradmin.SelfTestSpec{Scopes: scopesOf(scope)})
		if err != nil || len(tr.Steps) < 3 || !tr.Steps[1].OK || !strings.HasPrefix(tr.Steps[1].What, want) {
			t.Errorf("%s: %v, %+v", scope, err, tr)
		}
	}
}
