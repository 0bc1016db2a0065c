package broker

import (
	"encoding/json"
	"time"

	"ebb/broker/provider"
	"ebb/scopes"
)

// LeaseState is where a credential is in its life. One column says it.
type LeaseState string

// Lease states. An own token knows live, revoked and expired; a credential of a
// third party goes
//
//	intent -> live -> revoking -> revoked | expired | unconfirmed
//
// and may leave out live. Nothing leaves one of the last three.
const (
	LeaseIntent      LeaseState = "intent"      // recorded, provider not yet known to have minted
	LeaseLive        LeaseState = "live"        //
	LeaseRevoking    LeaseState = "revoking"    // refused here, its end is owed at the provider
	LeaseRevoked     LeaseState = "revoked"     // taken back before its time
	LeaseExpired     LeaseState = "expired"     // it had its whole time
	LeaseUnconfirmed LeaseState = "unconfirmed" // the provider never confirmed; its own expiry passed, or a person forced it
)

// final reports whether nothing leaves the state.
func (s LeaseState) final() bool {
	return s == LeaseRevoked || s == LeaseExpired || s == LeaseUnconfirmed
}

// Lease is one credential on the record. Its id is the jti of an own token.
//
// A lease of an own token is not rewritten when its task ends: the task's end
// is recorded once and State, RevokedAt and Cause are derived from it when the
// lease is read, so that ending a task costs the same for one token as for a
// hundred thousand.
type Lease struct {
	ID        string           `json:"id"` // "lse_..."
	TaskID    string           `json:"task_id"`
	Sandbox   string           `json:"sandbox"`
	Owner     string           `json:"owner"`
	Provider  string           `json:"provider"`
	Scopes    scopes.Set       `json:"scope"`
	Resource  string           `json:"resource"`
	Binding   provider.Binding `json:"cnf"`
	Class     provider.Class   `json:"revocability"`
	RequestID string           `json:"request_id,omitempty"` // the approval it came from
	ParentID  string           `json:"parent_id,omitempty"`  // the credential it was narrowed from, or whose request an answer made it for: it dies with that
	Rule      string           `json:"rule"`                 // policy ids that decided
	Tool      string           `json:"tool,omitempty"`
	Delivery  string           `json:"delivery,omitempty"` // policy.DeliveryToken or policy.DeliveryEgress; "" = issued before that was on the record
	Txn       string           `json:"txn"`
	IssuedAt  time.Time        `json:"issued_at"`
	ExpiresAt time.Time        `json:"expires_at"`

	State     LeaseState `json:"state"`
	RevokedAt time.Time  `json:"revoked_at,omitzero"` // refused here since
	RevokedBy string     `json:"revoked_by,omitempty"`
	Cause     Cause      `json:"cause,omitempty"`

	Upstream *Upstream `json:"upstream,omitempty"` // nil for own tokens
}

// Upstream is what is known of a lease's credential at a third party. RevokedAt
// of the lease says since when ebb refuses it; DeadAt, since when it is known to be
// dead there. Neither is ever claimed for the other.
//
// A lease with one is issued as an intent, to a task that is not closed, and begins
// as claimed with fence 1 until NextAt. A live one reads as revoking from its expiry
// on, never as expired: refused here, its end owed.
type Upstream struct {
	Bound      Seconds   `json:"revocation_bound,omitempty"` // class eventual: refused at most so long after AcceptedAt
	DiesAt     time.Time `json:"dies_at,omitzero"`           // refused by the provider by itself; zero = never
	AcceptedAt time.Time `json:"accepted_at,omitzero"`       // the provider took the revocation
	DeadAt     time.Time `json:"dead_at,omitzero"`           // dead at the provider since, at the latest
	Proof      Proof     `json:"proof,omitempty"`            // how DeadAt is known
	ProbedAt   time.Time `json:"probed_at,omitzero"`         // last probe at a time when it had to be refused; it was not, as long as DeadAt is zero
	Attempts   int       `json:"attempts"`                   // at its end that failed, so far
	Unjudged   int       `json:"-"`                          // probes since AcceptedAt of which nobody could tell what they showed
	NextAt     time.Time `json:"next_attempt_at,omitzero"`   // when the lane looks at it again; zero = never
	LastError  string    `json:"last_error,omitempty"`       // of the last attempt: a sentence without secrets
	Handle     string    `json:"-"`                          // sealed; "" = none. Only Take, Sealed and LeaseFilter.Handles read it
}

// Proof is how the broker knows that a credential is dead at its provider, from
// the strongest to the weakest. With the last two there is no DeadAt.
type Proof string

// Proofs.
const (
	ProofProbed    Proof = "probed"    // it was used after its end, and refused
	ProofConfirmed Proof = "confirmed" // the provider says so
	ProofBound     Proof = "bound"     // confirmed, and the bound of its class has passed
	ProofExpired   Proof = "expired"   // its own expiry has passed
	ProofNever     Proof = "never"     // the provider says that it was never minted
	ProofForced    Proof = "forced"    // a person said so
	ProofNone      Proof = "none"      // nobody knows whether it ever was, or until when: what an answer made that nobody could read
)

// Facts is the canonical (RFC 8785) JSON of what an approver decides on.
type Facts = json.RawMessage
