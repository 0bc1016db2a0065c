package wire

import (
	"encoding/json"
	"time"
)

// EnrolmentBody is the body of POST /v1/enroll, with a DPoP proof of the sandbox's key. It holds Ticket, or TaskID and
// evidence.
type EnrolmentBody struct {
	// Ticket is a single-use ticket.
	Ticket string `json:"ticket,omitempty"`
	// TaskID is the task that the evidence is shown for.
	TaskID string `json:"task_id,omitempty"`
	// Evidence is the document that the attestor takes; "" when the connection or a header is the evidence.
	Evidence string `json:"evidence,omitempty"`
	// Attestor is the name of the attestor; "" = the one that the runner registered.
	Attestor string `json:"attestor,omitempty"`
}

// Enrolled is the answer to EnrolmentBody.
type Enrolled struct {
	// TaskToken is the subject token of the sandbox's token requests. It is bound to the key of the proof.
	TaskToken string `json:"task_token"`
	// TokenType is always DPoP.
	TokenType string `json:"token_type"`
	// ExpiresAt is when TaskToken expires.
	ExpiresAt time.Time `json:"expires_at"`
	// TaskID is the sandbox's task.
	TaskID string `json:"task_id"`
	// ClientID is the id of the sandbox, for client assertions.
	ClientID string `json:"client_id"`
}

// ChallengeBody is the body of POST /v1/challenge, with a DPoP proof of the sandbox's key.
type ChallengeBody struct {
	// Attestor is the name of the attestor; "" = the one that the runner registered.
	Attestor string `json:"attestor,omitempty"`
	// TaskID is required without Attestor.
	TaskID string `json:"task_id,omitempty"`
	// Evidence is what the attestor's documentation names, often nothing.
	Evidence string `json:"evidence,omitempty"`
}

// Challenge is the answer to ChallengeBody.
type Challenge struct {
	// Nonce is the value that the evidence must contain.
	Nonce string `json:"nonce"`
	// Document is what else the attestor sends; nil = nothing.
	Document json.RawMessage `json:"document,omitempty"`
	// ExpiresAt is when the challenge expires.
	ExpiresAt time.Time `json:"expires_at"`
}

// Delegated is the answer to DelegateForm: the task of the other sandbox.
type Delegated struct {
	// TaskID is the other task.
	TaskID string `json:"task_id"`
	// Scope is the ceiling of the other task.
	Scope string `json:"scope"`
	// ExpiresAt is the deadline of the other task.
	ExpiresAt time.Time `json:"expires_at"`
	// Uses is the number of credentials in all; 0 = they are not counted.
	Uses int `json:"uses,omitempty"`
	// Expect describes the other sandbox.
	Expect Expect `json:"sandbox_expected"`
	// Ticket is a single-use ticket for the other sandbox alone; "" when that one shows other evidence.
	Ticket string `json:"ticket,omitempty"`
	// TicketExpiresAt is when Ticket expires.
	TicketExpiresAt time.Time `json:"ticket_expires_at,omitzero"`
}

// OwnCredential is a credential that a sandbox was issued for its task, without the credential itself.
type OwnCredential struct {
	// LeaseID names the credential at the revocation endpoint.
	LeaseID string `json:"lease_id"`
	// Scope is the granted scope.
	Scope string `json:"scope"`
	// Resource is the resource that the credential is for (RFC 8707).
	Resource string `json:"resource,omitempty"`
	// Tool is the tool that the credential was requested for.
	Tool string `json:"tool,omitempty"`
	// State is the state of the credential.
	State LeaseState `json:"state"`
	// Class is how the provider revokes the credential.
	Class Class `json:"revocability"`
	// IssuedAt is when the credential was issued.
	IssuedAt time.Time `json:"issued_at"`
	// ExpiresAt is when the credential expires.
	ExpiresAt time.Time `json:"expires_at"`
	// RevokedAt is since when ebb refuses the credential; zero while it does not.
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// HoldLine is one line of the answer to HoldForm, of media type application/jsonl. The first line says Held, the last
// says Why the connection ends. Empty lines between them show that the connection is alive.
type HoldLine struct {
	// Held says that ebb watches the connection from now on.
	Held bool `json:"held"`
	// TaskID is the sandbox's task.
	TaskID string `json:"task_id,omitempty"`
	// Why is HoldTaskClosed or HoldReconnect in the last line.
	Why string `json:"why,omitempty"`
}

// Values of HoldLine.Why.
const (
	HoldTaskClosed = "task_closed" // the task has ended
	HoldReconnect  = "reconnect"   // this ebb is shutting down; connect again
)
