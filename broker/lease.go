package broker

import (
	"encoding/json"
	"time"

	"ebb/broker/provider"
	"ebb/scopes"
)

// LeaseState is where a credential is in its life. One column says it.
type LeaseState string

// Lease states.
const (
	LeaseIntent      LeaseState = "intent"      // recorded, provider not yet known to have minted
	LeaseLive        LeaseState = "live"        //
	LeaseRevoking    LeaseState = "revoking"    // refused here, revocation owed at the provider
	LeaseRevoked     LeaseState = "revoked"     //
	LeaseExpired     LeaseState = "expired"     //
	LeaseUnconfirmed LeaseState = "unconfirmed" // own expiry passed before the provider confirmed
)

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
	ParentID  string           `json:"parent_id,omitempty"`  // the credential it was narrowed from: it dies with that
	Rule      string           `json:"rule"`                 // policy ids that decided
	Tool      string           `json:"tool,omitempty"`
	Txn       string           `json:"txn"`
	IssuedAt  time.Time        `json:"issued_at"`
	ExpiresAt time.Time        `json:"expires_at"`

	State     LeaseState `json:"state"`
	RevokedAt time.Time  `json:"revoked_at,omitzero"` // refused here since
	RevokedBy string     `json:"revoked_by,omitempty"`
	Cause     Cause      `json:"cause,omitempty"`
}

// Facts is the canonical (RFC 8785) JSON of what an approver decides on.
type Facts = json.RawMessage
