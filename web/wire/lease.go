package wire

import "time"

// LeaseState is the state of a credential. The last three are final.
type LeaseState string

// Lease states. A credential of ebb's own is live, revoked or expired. A credential of a third party goes
//
//	intent -> live -> revoking -> revoked | expired | unconfirmed
//
// and may leave out live.
const (
	LeaseIntent      LeaseState = "intent"      // recorded; it is not known yet whether the provider has issued it
	LeaseLive        LeaseState = "live"        // usable
	LeaseRevoking    LeaseState = "revoking"    // ebb refuses it; the provider has not confirmed its end
	LeaseRevoked     LeaseState = "revoked"     // revoked before its expiry
	LeaseExpired     LeaseState = "expired"     // it reached its expiry
	LeaseUnconfirmed LeaseState = "unconfirmed" // the provider never confirmed; its expiry passed, or an operator closed its revocation
)

// Class is how a provider revokes its credentials.
type Class string

// Revocability classes.
const (
	ClassTTLOnly  Class = "ttl-only" // only its expiry ends it
	ClassEventual Class = "eventual" // refused at most the revocation bound after it was revoked
	ClassInstant  Class = "instant"  // refused from the moment it was revoked
)

// Proof is how ebb knows that a credential is dead at its provider, from the strongest to the weakest.
type Proof string

// Proofs.
const (
	ProofProbed    Proof = "probed"    // a probe after the revocation was refused
	ProofConfirmed Proof = "confirmed" // the provider confirmed it
	ProofBound     Proof = "bound"     // confirmed, and the bound of its class has passed
	ProofExpired   Proof = "expired"   // its own expiry has passed
	ProofNever     Proof = "never"     // the provider reports that it was never issued
	ProofForced    Proof = "forced"    // an operator closed the pending revocation; there is no DeadAt
	ProofNone      Proof = "none"      // it is not known whether or until when it was valid; there is no DeadAt
)

// Lease is the record of one credential.
type Lease struct {
	// ID is "lse_" and 32 hex digits; the jti of an own token.
	ID string `json:"id"`
	// TaskID is the task that the credential belongs to.
	TaskID string `json:"task_id"`
	// Sandbox is the sandbox that it was issued to.
	Sandbox string `json:"sandbox"`
	// Owner is the owner of the task.
	Owner string `json:"owner"`
	// Provider is the name of the provider that issued it.
	Provider string `json:"provider"`
	// Scopes is the granted scope.
	Scopes string `json:"scope"`
	// Resource is the resource that it is for (RFC 8707).
	Resource string `json:"resource"`
	// Binding is the key that it is bound to.
	Binding Binding `json:"cnf"`
	// Class is how the provider revokes it.
	Class Class `json:"revocability"`
	// RequestID is the approved request that it came from.
	RequestID string `json:"request_id,omitempty"`
	// ParentID is the credential that it was narrowed from, or whose response contained it. It ends with that.
	ParentID string `json:"parent_id,omitempty"`
	// Rule names the policies that decided.
	Rule string `json:"rule"`
	// Tool is the tool that it was requested for.
	Tool string `json:"tool,omitempty"`
	// Delivery is DeliveryToken or DeliveryEgress; "" in leases of older versions.
	Delivery string `json:"delivery,omitempty"`
	// Txn joins the audit entries about it (RFC 8417 section 2.2).
	Txn string `json:"txn"`
	// IssuedAt is when it was issued.
	IssuedAt time.Time `json:"issued_at"`
	// ExpiresAt is when it expires.
	ExpiresAt time.Time `json:"expires_at"`
	// Content is the hex SHA-256 of the facts of one request or SQL text, for which the lease can be used once; "" = no
	// limit to one request.
	Content string `json:"content_sha256,omitempty"`
	// MaxAmount is what its task may spend at the provider, as in Facts; nil = no limit.
	MaxAmount []string `json:"max_amount,omitzero"`
	// State is its state.
	State LeaseState `json:"state"`
	// RevokedAt is since when ebb refuses it; zero while it does not.
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	// RevokedBy is the principal that revoked it.
	RevokedBy string `json:"revoked_by,omitempty"`
	// Cause is why it ended.
	Cause Cause `json:"cause,omitempty"`
	// Upstream is its state at the third party; nil for own tokens.
	Upstream *Upstream `json:"upstream,omitempty"`
}

// Upstream is the state of a credential at a third party.
type Upstream struct {
	// Bound is the number of seconds after AcceptedAt within which the provider refuses it, of ClassEventual.
	Bound int64 `json:"revocation_bound,omitempty"`
	// DiesAt is when the provider refuses it by itself; zero = never.
	DiesAt time.Time `json:"dies_at,omitzero"`
	// AcceptedAt is when the provider accepted the revocation.
	AcceptedAt time.Time `json:"accepted_at,omitzero"`
	// DeadAt is since when, at the latest, the provider refuses it; zero while that is not known.
	DeadAt time.Time `json:"dead_at,omitzero"`
	// Proof is how DeadAt is known.
	Proof Proof `json:"proof,omitempty"`
	// ProbedAt is when ebb last probed it after its revocation.
	ProbedAt time.Time `json:"probed_at,omitzero"`
	// Attempts is the number of failed attempts to revoke it.
	Attempts int `json:"attempts"`
	// NextAt is when ebb tries again; zero = never.
	NextAt time.Time `json:"next_attempt_at,omitzero"`
	// LastError is a sentence about the last attempt, without secrets.
	LastError string `json:"last_error,omitempty"`
}
