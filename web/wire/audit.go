package wire

import "encoding/json"

// AuditEntry is one entry of the audit log. Its JSON is canonical (RFC 8785): the members are in the order of their
// names, and Hash covers the others. Decode and encode it as it is, or the hash no longer holds.
type AuditEntry struct {
	// Actor is the principal or sandbox that caused it; "ebb" for ebb itself.
	Actor string `json:"actor"`
	// At is when it happened: RFC 3339 in UTC, always with three decimals.
	At string `json:"at"`
	// Data is a JSON object of facts, never with a secret; nil = none.
	Data json.RawMessage `json:"data,omitempty"`
	// Hash is the hex SHA-256 of the entry without Hash.
	Hash string `json:"hash"`
	// Kind is the kind of the entry, such as lease.issued.
	Kind string `json:"kind"`
	// LeaseID is the credential that it is about.
	LeaseID string `json:"lease_id,omitempty"`
	// Prev is Hash of the entry before, of the same Writer; "" for the first.
	Prev string `json:"prev"`
	// RequestID is the request that it is about.
	RequestID string `json:"request_id,omitempty"`
	// Seq is 1, 2, 3 and so on for each Writer, without gaps.
	Seq int64 `json:"seq"`
	// TaskID is the task that it belongs to.
	TaskID string `json:"task_id,omitempty"`
	// Writer is the process run that appended it.
	Writer string `json:"writer"`
}

// Checkpoint is a signed statement of the last entry of every chain.
type Checkpoint struct {
	// At is when it was signed: RFC 3339 in UTC, always with three decimals.
	At string `json:"at"`
	// Heads are the last entries, by AuditEntry.Writer.
	Heads map[string]CheckpointHead `json:"heads"`
	// JWS is a compact JWS (RFC 7515) over At and Heads, of type ebb-checkpoint+jwt.
	JWS string `json:"jws"`
}

// CheckpointHead is the last entry of one chain.
type CheckpointHead struct {
	// Hash is AuditEntry.Hash.
	Hash string `json:"hash"`
	// Seq is AuditEntry.Seq.
	Seq int64 `json:"seq"`
}
