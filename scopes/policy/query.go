package policy

import (
	"errors"
	"fmt"
	"time"

	"ebb/scopes"
)

// ErrQuery marks a query that is not well-formed: the caller's fault.
var ErrQuery = errors.New("policy: bad query")

// ErrEvaluation marks a query that could not be judged because a policy failed while it was evaluated. It is neither yes
// nor no: nothing may be granted on it.
var ErrEvaluation = errors.New("policy: could not judge")

// What binds a credential to its sandbox, and how it is handed over.
const (
	BindingDPoP    = "dpop"   // RFC 9449
	BindingMTLS    = "mtls"   // RFC 8705
	DeliveryToken  = "token"  // the sandbox gets the bound token itself
	DeliveryEgress = "egress" // only the egress proxy can open it
)

// How what is minted can be taken back, from the strongest promise to the weakest.
const (
	RevocableInstant  = "instant"  // refused from the moment of its revocation
	RevocableEventual = "eventual" // refused at most Query.Bound after it
	RevocableNever    = "ttl-only" // dies by its own expiry alone
)

// Query is everything a decision depends on. Its JSON form is stable: see wire.go.
type Query struct {
	Sandbox  Sandbox
	Task     Task
	Scopes   scopes.Set    // what is asked; not empty
	Tool     string        // as the sandbox claims; may be empty
	TTL      time.Duration // what is asked; at least one second, fractions are cut off
	Binding  string        // BindingDPoP or BindingMTLS
	Delivery string        // DeliveryToken or DeliveryEgress
	// CouldStay says of what would be handed out that egress could add some of it to requests instead.
	CouldStay bool
	Record    Record
	// Revocability is one of the three, as the provider of the scopes promises it; Bound is that of RevocableEventual, at
	// least one second, and otherwise 0.
	Revocability string
	Bound        time.Duration
	Taint        []string // marks of untrusted data the task has read; a set
}

// Sandbox is the attested caller. ID and Attestor are required.
type Sandbox struct {
	ID        string            `json:"id"`
	Attestor  string            `json:"attestor"`
	Evidence  string            `json:"evidence"` // evidence class
	Subject   string            `json:"subject"`
	Selectors map[string]string `json:"selectors,omitempty"`
}

// Task is what the runner opened. ID is required.
type Task struct {
	ID     string
	Kind   string
	Owner  string
	Name   string
	Labels map[string]string
	Age    time.Duration // not negative; policies see whole seconds
	Depth  int           // how many sandboxes in a row delegated to it; 0 = a runner opened it
}

// Record is how the task has behaved so far.
type Record struct {
	Denials    int `json:"denials"`
	Violations int `json:"violations"`
}

// check refuses a query that a caller filled badly, all faults at once; unknown is an error, never a default.
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
	need(q.Record.Denials >= 0 && q.Record.Violations >= 0, "record counts are negative")
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrQuery, errors.Join(faults...))
	}
	return nil
}
