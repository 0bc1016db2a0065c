package wire

import "time"

// ReceiptAnswer is the answer of GET /v1/tasks/{id}/receipt.
type ReceiptAnswer struct {
	// Receipt is the signed receipt, a JWS (RFC 7515). Only the JWS proves anything.
	Receipt string `json:"receipt"`
	// Contents is the payload of Receipt.
	Contents Receipt `json:"contents"`
}

// Receipt is the state of a task's third-party credentials at one moment.
type Receipt struct {
	// Issuer is ebb's public base URL.
	Issuer string `json:"iss"`
	// IssuedAt is the moment, in Unix seconds.
	IssuedAt int64 `json:"iat"`
	// Task is the task, which has ended.
	Task string `json:"task"`
	// ClosedAt is when the task ended.
	ClosedAt time.Time `json:"closed_at"`
	// Cause is why the task ended.
	Cause string `json:"cause"`
	// Delegated is the number of delegated tasks that ended with it. Live and Expired include their credentials.
	Delegated int `json:"delegated_tasks,omitempty"`
	// Live is the number of credentials of every kind that were live when the task ended.
	Live int `json:"live"`
	// Expired is the number of credentials that had expired before.
	Expired int `json:"expired"`
	// Uncounted says that the live store did not answer at the end: Live and Expired may be too low.
	Uncounted bool `json:"uncounted,omitempty"`
	// Complete says that every third-party credential is known to be dead.
	Complete bool `json:"complete"`
	// Total is the number of third-party credentials.
	Total int `json:"third_party"`
	// States counts the third-party credentials by LeaseState.
	States map[string]int `json:"states"`
	// Credentials are the first 100 third-party credentials, by id.
	Credentials []ReceiptCredential `json:"credentials"`
	// Rest stands for the others; nil = there are none.
	Rest *ReceiptRest `json:"rest,omitempty"`
}

// ReceiptCredential is one third-party credential of a receipt.
type ReceiptCredential struct {
	// Lease is the id of its lease.
	Lease string `json:"lease"`
	// Task is the delegated task that it belongs to; "" = the task of the receipt.
	Task string `json:"task,omitempty"`
	// Provider is the name of its provider.
	Provider string `json:"provider"`
	// Scope is the granted scope.
	Scope string `json:"scope"`
	// Class is how the provider revokes it.
	Class string `json:"class"`
	// Bound is the revocation bound in seconds, of ClassEventual.
	Bound int64 `json:"bound_seconds,omitempty"`
	// State is its state. LeaseRevoking = it is not known to be dead yet.
	State string `json:"state"`
	// RevokedAt is since when ebb refuses it.
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	// AcceptedAt is when the provider accepted the revocation.
	AcceptedAt time.Time `json:"accepted_at,omitzero"`
	// DeadAt is since when, at the latest, the provider refuses it.
	DeadAt time.Time `json:"dead_at,omitzero"`
	// Proof is how DeadAt is known.
	Proof string `json:"proof,omitempty"`
	// ProbedAt is when ebb last probed it after its revocation.
	ProbedAt time.Time `json:"probed_at,omitzero"`
	// Attempts is the number of failed attempts to revoke it.
	Attempts int `json:"attempts"`
}

// ReceiptRest stands for the credentials that a receipt does not name.
type ReceiptRest struct {
	// Count is their number.
	Count int `json:"count"`
	// Dead is the number of them that are known to be dead.
	Dead int `json:"dead"`
	// SHA256 is the hex hash over the JSON of each and a line feed, in the order of their ids.
	SHA256 string `json:"sha256"`
}
