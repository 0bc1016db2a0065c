package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// ErrQuery is wrapped for a query that is not well-formed: the caller's fault.
var ErrQuery = errors.New("policy: bad query")

// ErrEvaluation is wrapped for a query that could not be decided because a policy failed during its
// evaluation. It is neither a grant nor a denial: nothing may be granted on it.
var ErrEvaluation = errors.New("policy: could not judge")

// Values of Query.Binding and Query.Delivery.
const (
	BindingDPoP    = "dpop"   // RFC 9449
	BindingMTLS    = "mtls"   // RFC 8705
	DeliveryToken  = "token"  // the sandbox gets the bound token itself
	DeliveryEgress = "egress" // only the egress proxy can open it
)

// Values of Query.Revocability, from the strongest promise to the weakest.
const (
	RevocableInstant  = "instant"  // refused from the moment of its revocation
	RevocableEventual = "eventual" // refused at most Query.Bound after its revocation
	RevocableNever    = "ttl-only" // not revocable: it ends by its expiry
)

// Query holds all inputs of a decision. Its JSON form is stable: see wire.go.
type Query struct {
	Sandbox  Sandbox
	Task     Task
	Scopes   scopes.Set    // the requested scopes; not empty
	Tool     string        // as claimed by the sandbox; may be empty
	TTL      time.Duration // the requested time; at least one second, fractions are cut off
	Binding  string        // BindingDPoP or BindingMTLS
	Delivery string        // DeliveryToken or DeliveryEgress
	// CouldStay says that egress could add a part of the credential to requests instead of issuing
	// it to the sandbox.
	CouldStay bool
	Record    Record
	// Revocability is one of the three values, as promised by the provider of the scopes. Bound
	// belongs to RevocableEventual, at least one second, and is otherwise 0.
	Revocability string
	Bound        time.Duration
	Taint        []string // untrusted sources that the task has read; a set
	// Content is the one request to which the credential is limited. Kind "" = no such limit.
	Content Content
}

// Content is what one request does, as ebb reads it from the body.
type Content struct {
	Kind    string   `json:"kind"`    // how the body is read, such as "gitpush" or "pgsql"
	Actions []string `json:"actions"` // of its operations, such as "delete"; a set
	Objects []string `json:"objects"` // of its operations, such as "acme/web/refs/heads/main"; a set
	// Amount is the sum of its amounts; the zero Amount = it states none.
	Amount amount.Amount `json:"amount,omitzero"`
}

// Sandbox is the attested caller. ID and Attestor are required.
type Sandbox struct {
	ID        string            `json:"id"`
	Attestor  string            `json:"attestor"`
	Evidence  string            `json:"evidence"` // evidence class
	Subject   string            `json:"subject"`
	Selectors map[string]string `json:"selectors,omitempty"`
}

// Task is the task of the sandbox. ID is required.
type Task struct {
	ID     string
	Kind   string
	Owner  string
	Name   string
	Labels map[string]string
	Age    time.Duration // not negative; policies see whole seconds
	Depth  int           // number of delegations above it; 0 = a runner opened it
}

// Record counts the denials and violations of the task so far.
type Record struct {
	Denials    int `json:"denials"`
	Violations int `json:"violations"`
}

// empty reports whether the content states nothing besides its kind.
func (c Content) empty() bool {
	return len(c.Actions) == 0 && len(c.Objects) == 0 && c.Amount == amount.Amount{}
}

// check returns all faults of a malformed query; an unknown value is an error, never a default.
func (q Query) check() error {
	var faults []error
	need := func(ok bool, fault string) {
		if !ok {
			faults = append(faults, errors.New(fault))
		}
	}
	need(q.Sandbox.ID != "", "sandbox id is empty")
	need(q.Sandbox.Attestor != "", "sandbox attestor is empty")
	need(q.Task.ID != "", "task id is empty")
	need(q.Task.Age >= 0, "task age is negative")
	need(q.Task.Depth >= 0, "task depth is negative")
	need(!q.Scopes.Empty(), "no scope is asked for")
	need(q.TTL >= time.Second, "ttl is under one second")
	need(q.Binding == BindingDPoP || q.Binding == BindingMTLS, `binding is neither "dpop" nor "mtls"`)
	need(q.Delivery == DeliveryToken || q.Delivery == DeliveryEgress, `delivery is neither "token" nor "egress"`)
	need(!q.CouldStay || q.Delivery == DeliveryToken, "could_stay with a delivery that is not token")
	switch q.Revocability {
	case RevocableInstant, RevocableNever:
		need(q.Bound == 0, "revocation bound without revocability eventual")
	case RevocableEventual:
		need(q.Bound >= time.Second, "revocability eventual without a revocation bound of at least one second")
	default:
		need(false, `revocability is none of "instant", "eventual", "ttl-only"`)
	}
	need(q.Content.Kind != "" || q.Content.empty(), "content without a kind")
	need(q.Record.Denials >= 0 && q.Record.Violations >= 0, "record counts are negative")
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrQuery, errors.Join(faults...))
	}
	return nil
}
