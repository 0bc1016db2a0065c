package wire

import (
	"encoding/json"
	"time"
)

// RequestState is the state of a request. All but pending and approved are final.
type RequestState string

// Request states.
const (
	RequestPending   RequestState = "pending"   // it waits for a person
	RequestApproved  RequestState = "approved"  // decided; its first credential has not been fetched yet
	RequestIssued    RequestState = "issued"    // its first credential was fetched; the approval is reused until GrantUntil
	RequestDenied    RequestState = "denied"    // a person denied it
	RequestExpired   RequestState = "expired"   // it was not decided in time
	RequestWithdrawn RequestState = "withdrawn" // the client withdrew it, or its task ended
)

// DenyCode tells an agent why a request was denied.
type DenyCode string

// Deny codes.
const (
	DenyTooBroad      DenyCode = "too_broad"
	DenyWrongResource DenyCode = "wrong_resource"
	DenyNotNeeded     DenyCode = "not_needed"
	DenyUseExisting   DenyCode = "use_existing_grant"
	DenyAskOwner      DenyCode = "ask_owner"
	DenyNoAnswer      DenyCode = "no_answer"
	DenyByPolicy      DenyCode = "policy"
	DenySuspicious    DenyCode = "suspicious"   // also stops the task
	DenyAskedEnough   DenyCode = "asked_enough" // by ebb: the task or its owner has too many waiting requests
	DenyTaskPaused    DenyCode = "task_paused"  // by ebb: the task is paused until a person resumes it
)

// Request is a request that waits or waited for a person.
type Request struct {
	// ID is "req_" and 32 hex digits.
	ID string `json:"id"`
	// Match is a short name that people call the request by, such as OTTER-42. It proves nothing and need not be unique.
	Match string `json:"match_code,omitempty"`
	// TaskID is the task that asked.
	TaskID string `json:"task_id"`
	// Sandbox is the sandbox that asked.
	Sandbox string `json:"sandbox"`
	// Owner is the owner of the task, who may not approve.
	Owner string `json:"owner"`
	// Runner is the runner of the task, which may not approve.
	Runner string `json:"runner"`
	// Provider is the name of the provider.
	Provider string `json:"provider"`
	// Scopes is the requested scope.
	Scopes string `json:"scope"`
	// Resource is the resource that the credential is for (RFC 8707).
	Resource string `json:"resource"`
	// TTL is the requested lifetime of the credential in seconds.
	TTL int64 `json:"ttl_seconds"`
	// Binding is the key that the credential will be bound to.
	Binding Binding `json:"cnf"`
	// Tool is the tool that needs the credential.
	Tool string `json:"tool,omitempty"`
	// Details says that it was asked for with authorization details (RFC 9396) and is answered with them.
	Details bool `json:"details,omitempty"`
	// EvidenceEnd is when the evidence of the sandbox ends, and with it a credential that is fetched by polling.
	EvidenceEnd time.Time `json:"evidence_until,omitzero"`
	// Approvers says who must agree.
	Approvers
	// Facts is the canonical JSON (RFC 8785) of a Facts: what an approver decides on. Its bytes are what Digest covers.
	Facts json.RawMessage `json:"facts"`
	// Digest is the hex SHA-256 of Facts.
	Digest string `json:"digest"`
	// Reason is the reason that the agent gave.
	Reason AgentText `json:"reason"`
	// Asked is how often the same was asked for.
	Asked int `json:"asked"`
	// CreatedAt is when it was first asked for.
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is when the request expires undecided.
	ExpiresAt time.Time `json:"expires_at"`
	// State is its state.
	State RequestState `json:"state"`
	// Votes are the answers so far.
	Votes []Vote `json:"votes,omitempty"`
	// DecidedAt is when it was decided.
	DecidedAt time.Time `json:"decided_at,omitzero"`
	// Granted is the approved scope, which may be narrower than Scopes.
	Granted string `json:"granted_scope,omitempty"`
	// GrantedTTL is the approved lifetime in seconds.
	GrantedTTL int64 `json:"granted_ttl_seconds,omitempty"`
	// GrantUntil is until when the approval is reused inside the task.
	GrantUntil time.Time `json:"grant_until,omitzero"`
	// Code is why it was denied.
	Code DenyCode `json:"code,omitempty"`
	// Note is a sentence of the approver to the agent.
	Note string `json:"note,omitempty"`
}

// Approvers says who must agree to a request. Rules decide; Groups and Quorum sum them up for people.
type Approvers struct {
	// Groups are all groups that have a say, sorted.
	Groups []string `json:"groups"`
	// Quorum is the number of different people that must agree at least.
	Quorum int `json:"quorum"`
	// Rules must all be satisfied; sorted by ID.
	Rules []AskRule `json:"rules"`
}

// AskRule is what one policy requires: Quorum different people, each in at least one of Groups.
type AskRule struct {
	// ID is the id of the policy.
	ID string `json:"id"`
	// Groups are the groups of the people.
	Groups []string `json:"groups"`
	// Quorum is the number of people.
	Quorum int `json:"quorum"`
}

// Vote is the answer of one approver.
type Vote struct {
	// RequestID is the request.
	RequestID string `json:"request_id"`
	// By is the approver.
	By string `json:"by"`
	// BreakGlass is the break-glass period in which the approver decided alone; "" = together with the others.
	BreakGlass string `json:"break_glass,omitempty"`
	// Groups are the groups of the approver at that moment.
	Groups []string `json:"groups,omitempty"`
	// Approve is the answer.
	Approve bool `json:"approve"`
	// Digest is the digest of the facts that the approver saw.
	Digest string `json:"digest"`
	// Scopes is narrower than requested; "" = as requested.
	Scopes string `json:"scope,omitempty"`
	// TTL is the shorter lifetime in seconds; 0 = as requested.
	TTL int64 `json:"ttl_seconds,omitempty"`
	// Code is why the approver denied.
	Code DenyCode `json:"code,omitempty"`
	// Note is a sentence to the agent, at most 500 code points.
	Note string `json:"note,omitempty"`
	// At is when the approver answered.
	At time.Time `json:"at"`
}

// ApprovalBody is the body of POST /v1/requests/{id}/approve.
type ApprovalBody struct {
	// Digest is Request.Digest, all 64 hex digits: exactly these facts are approved.
	Digest string `json:"digest"`
	// Scopes is narrower than requested; "" = as requested.
	Scopes string `json:"scope,omitempty"`
	// TTL is shorter than requested, in seconds; 0 = as requested.
	TTL int64 `json:"ttl_seconds,omitempty"`
	// Note is a sentence to the agent, at most 500 characters.
	Note string `json:"note,omitempty"`
	// Target is the typed name of the target, where the risk demands it (ProofTarget).
	Target string `json:"target,omitempty"`
}

// DenialBody is the body of POST /v1/requests/{id}/deny.
type DenialBody struct {
	// Code tells the agent why. DenySuspicious also stops the task.
	Code DenyCode `json:"code"`
	// Note is a sentence to the agent, at most 500 characters.
	Note string `json:"note,omitempty"`
	// Digest is Request.Digest; "" = the facts are not compared.
	Digest string `json:"digest,omitempty"`
}
