package brokertest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/scopes"
)

// Sandbox is a sandbox that has enrolled for a task with its own key.
type Sandbox struct {
	Env       *Env
	Key       jose.Signer
	Task      broker.Task
	TaskToken string
}

// Spec returns a task that may do most actions at provider orders.
func Spec() broker.TaskSpec {
	return broker.TaskSpec{
		Name: "fix login", Kind: "bugfix", Owner: "bo@example.com", TTL: 3600, Ticket: true,
		Ceiling: scopes.MustParseSet("orders:eu/**:* mail:**:read"), Expect: broker.Expect{Attestor: "enroll"},
	}
}

// Open opens a task as Runner and enrols a new sandbox for it.
func (e *Env) Open(t testing.TB, spec broker.TaskSpec) *Sandbox {
	t.Helper()
	spec.Ticket = true
	task, ticket, err := e.Broker.OpenTask(t.Context(), e.Principals[Runner], spec)
	if err != nil {
		t.Fatal(err)
	}
	return e.Enrol(t, task, ticket)
}

// Enrol enrols a new sandbox for a task.
func (e *Env) Enrol(t testing.TB, task broker.Task, ticket *broker.Ticket) *Sandbox {
	t.Helper()
	s := &Sandbox{Env: e, Key: NewKey(t)}
	en, err := e.Broker.Enrol(t.Context(), task.ID, attest.Evidence{Document: []byte(ticket.Ticket.Reveal())}, e.Prove(t, s.Key))
	if err != nil {
		t.Fatal(err)
	}
	s.Task, s.TaskToken = en.Task, en.Token.Reveal()
	return s
}

// Delegate delegates part of the sandbox's task to a new sandbox, which enrols.
func (s *Sandbox) Delegate(t testing.TB, spec broker.DelegationSpec) *Sandbox {
	t.Helper()
	task, ticket, err := s.AskDelegate(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	return s.Env.Enrol(t, task, ticket)
}

// AskDelegate asks to delegate part of the sandbox's task.
func (s *Sandbox) AskDelegate(t testing.TB, spec broker.DelegationSpec) (broker.Task, *broker.Ticket, error) {
	t.Helper()
	r := s.Request(t, spec.Ceiling.String())
	return s.Env.Broker.Delegate(t.Context(), r.Subject, r.Possession, spec)
}

// Prove returns a fresh proof of a key for the token endpoint, in the form in which web
// passes it to the broker. Its nonce is valid at every replica of the LiveStore.
func (e *Env) Prove(t testing.TB, key jose.Signer) broker.Possession {
	t.Helper()
	url := e.Issuer + "/oauth2/token"
	now := e.Clock.Now()
	proof, err := dpop.NewProof(key, "POST", url, "", e.Config.LiveStore.Memory(), now)
	if err != nil {
		t.Fatal(err)
	}
	p, err := dpop.Check([]string{proof}, dpop.Request{Method: "POST", URL: url, Now: now}, dpop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return broker.Possession{Proof: &p, Key: attest.Key{JKT: p.JKT, Public: p.Public}}
}

// Request returns a token request of the sandbox with its task token and a new proof.
func (s *Sandbox) Request(t testing.TB, scope string) broker.TokenRequest {
	t.Helper()
	return broker.TokenRequest{
		Subject:    broker.Subject{Evidence: &attest.Evidence{Attestor: "enroll", Document: []byte(s.TaskToken)}, Fault: broker.Invalid},
		Possession: s.Env.Prove(t, s.Key),
		Scopes:     scopes.MustParseSet(scope),
		Reason:     agenttext.From("I need it"),
	}
}

// Ask requests a token.
func (s *Sandbox) Ask(t testing.TB, scope string) (broker.Token, error) {
	t.Helper()
	return s.Env.Broker.Token(t.Context(), s.Request(t, scope))
}

// AskDeferred requests a token and accepts a deferral.
func (s *Sandbox) AskDeferred(t testing.TB, scope string) (broker.Token, error) {
	t.Helper()
	r := s.Request(t, scope)
	r.Deferred = true
	return s.Env.Broker.Token(t.Context(), r)
}

// Poll redeems a deferral code with a new proof.
func (s *Sandbox) Poll(t testing.TB, code string) (broker.Token, error) {
	t.Helper()
	return s.Env.Broker.Poll(t.Context(), approval.PollRequest{Code: code, Possession: s.Env.Prove(t, s.Key)})
}

// Active introspects a token as an operator.
func (e *Env) Active(t testing.TB, token string) bool {
	t.Helper()
	i, err := e.Broker.Introspect(t.Context(), e.Principals[Operator], token)
	if err != nil {
		t.Fatal(err)
	}
	return i.Active
}

// Assertion signs a private_key_jwt for a client (RFC 7523 section 3).
func (e *Env) Assertion(t testing.TB, client string, key jose.Signer) string {
	t.Helper()
	now := e.Clock.Now()
	a, err := jose.Sign(key, jose.SignHeader{Type: "JWT"}, map[string]any{
		"iss": client, "sub": client, "aud": e.Issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
