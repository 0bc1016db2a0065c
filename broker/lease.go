package broker

import (
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// LeaseState is the state of a credential, stored in one column.
type LeaseState string

// Lease states. An own token has live, revoked and expired; a credential of a third party goes
//
//	intent -> live -> revoking -> revoked | expired | unconfirmed
//
// and may skip live. The last three are final.
const (
	LeaseIntent      LeaseState = "intent"      // recorded; the provider is not yet known to have minted
	LeaseLive        LeaseState = "live"        //
	LeaseRevoking    LeaseState = "revoking"    // refused here; the revocation at the provider is pending
	LeaseRevoked     LeaseState = "revoked"     // revoked before its expiry
	LeaseExpired     LeaseState = "expired"     // its whole lifetime has passed
	LeaseUnconfirmed LeaseState = "unconfirmed" // the provider never confirmed; its own expiry passed, or a person forced it
)

// Final reports whether the state is final.
func (s LeaseState) Final() bool {
	return s == LeaseRevoked || s == LeaseExpired || s == LeaseUnconfirmed
}

// Lease is the durable description of one credential. Its id is the jti of an own token.
//
// A lease of an own token is not rewritten when its task ends. The task's end is recorded once,
// and State, RevokedAt and Cause are derived from it when the lease is read. Ending a task
// therefore costs the same for one token as for a hundred thousand.
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
	ParentID  string           `json:"parent_id,omitempty"`  // the credential it was narrowed from, or whose upstream response created it: it ends with that one
	Rule      string           `json:"rule"`                 // ids of the policies that decided
	Tool      string           `json:"tool,omitempty"`
	Delivery  string           `json:"delivery,omitempty"` // policy.DeliveryToken or policy.DeliveryEgress; "" = issued by a version that did not record it
	Txn       string           `json:"txn"`
	IssuedAt  time.Time        `json:"issued_at"`
	ExpiresAt time.Time        `json:"expires_at"`
	// Content is the content.Facts.Sum of one request, for which the lease can be used once; "" = no
	// limit to one request. Of other requests the lease covers only those with GET or HEAD, and bodies
	// that do nothing. If the facts have a Text, it covers everything within its scopes, too.
	Content string `json:"content_sha256,omitempty"`
	// MaxAmount is what the runner's task and all tasks below it may spend at the provider, with what
	// they spent there through other such leases; nil = no limit.
	MaxAmount amount.Limits `json:"max_amount,omitzero"`

	State     LeaseState `json:"state"`
	RevokedAt time.Time  `json:"revoked_at,omitzero"` // refused here since then
	RevokedBy string     `json:"revoked_by,omitempty"`
	Cause     Cause      `json:"cause,omitempty"`

	Upstream *Upstream `json:"upstream,omitempty"` // nil for own tokens
}

// Upstream describes a lease's credential at a third party. Lease.RevokedAt is the time since
// which ebb refuses it; DeadAt is the time since which the provider is known to refuse it.
// Neither is ever reported in place of the other.
//
// A lease with an Upstream is recorded as an intent, of a task that is not closed, and begins
// claimed with fence 1 until NextAt. A live lease reads as revoking from its expiry on, never
// as expired: it is refused here, and its revocation is pending.
type Upstream struct {
	Bound      Seconds   `json:"revocation_bound,omitempty"` // class eventual: longest time after AcceptedAt until it is refused
	DiesAt     time.Time `json:"dies_at,omitzero"`           // when the provider itself stops accepting it; zero = never
	AcceptedAt time.Time `json:"accepted_at,omitzero"`       // when the provider accepted the revocation
	DeadAt     time.Time `json:"dead_at,omitzero"`           // refused by the provider since then, at the latest
	Proof      Proof     `json:"proof,omitempty"`            // how DeadAt is known
	ProbedAt   time.Time `json:"probed_at,omitzero"`         // last probe after it should have been refused; while DeadAt is zero, the provider still accepted it
	Attempts   int       `json:"attempts"`                   // failed attempts to revoke it so far
	Unjudged   int       `json:"-"`                          // probes since AcceptedAt with an unclear result
	NextAt     time.Time `json:"next_attempt_at,omitzero"`   // when the revocation queue takes it again; zero = never
	LastError  string    `json:"last_error,omitempty"`       // of the last attempt: a sentence without secrets
	Handle     string    `json:"-"`                          // sealed revocation handle; "" = none. Only Take, Sealed and LeaseFilter.Handles read it
}

// Proof is how the broker knows that a credential is refused at its provider, strongest first.
// With the last two there is no DeadAt.
type Proof string

// Proofs.
const (
	ProofProbed    Proof = "probed"    // a probe with it after its end was refused
	ProofConfirmed Proof = "confirmed" // the provider says so
	ProofBound     Proof = "bound"     // confirmed, and the revocation bound of its class has passed
	ProofExpired   Proof = "expired"   // its own expiry has passed
	ProofNever     Proof = "never"     // the provider says that it was never minted
	ProofForced    Proof = "forced"    // a person recorded the end by force
	ProofNone      Proof = "none"      // unknown whether it was ever minted, or how long it lives: an unreadable response may have created it
)

// UpstreamOf selects the third-party credentials of a task and of the tasks delegated below it.
func UpstreamOf(t Task) LeaseFilter {
	if t.Delegation == nil {
		return LeaseFilter{TaskID: t.ID, Upstream: true}
	}
	return LeaseFilter{Tree: t.ID, Upstream: true}
}

// ProofOf returns the receipt's description of a credential. It names the credential's task
// when that is not t.
func ProofOf(t Task, l Lease) receipt.Credential {
	u, task := l.Upstream, ""
	if l.TaskID != t.ID {
		task = l.TaskID
	}
	return receipt.Credential{
		Task: task,

		Lease: l.ID, Provider: l.Provider, Scope: l.Scopes.String(), Class: string(l.Class), Bound: int64(u.Bound), State: string(l.State),
		RevokedAt: l.RevokedAt, AcceptedAt: u.AcceptedAt, DeadAt: u.DeadAt, Proof: string(u.Proof), ProbedAt: u.ProbedAt, Attempts: u.Attempts,
	}
}
