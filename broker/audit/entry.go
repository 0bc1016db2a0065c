package audit

import (
	"encoding/json"
	"time"
)

// Entry is one line of the record. The caller fills the first block; the
// store that appends it fills Writer, Seq, Prev and Hash, and thereby links it
// to the entry that the same writer appended before.
type Entry struct {
	At        time.Time       `json:"at"`                   // when it happened, UTC, millisecond precision
	Kind      string          `json:"kind"`                 // one of the Kind constants, e.g. "lease.issued"
	Actor     string          `json:"actor"`                // principal or sandbox id that caused it; "ebb" for the broker itself
	TaskID    string          `json:"task_id,omitempty"`    // task it belongs to
	LeaseID   string          `json:"lease_id,omitempty"`   // credential it is about (= jti of an own token)
	RequestID string          `json:"request_id,omitempty"` // escalation it is about
	Data      json.RawMessage `json:"data,omitempty"`       // facts, one JSON object; never a secret

	Writer string `json:"writer"` // id of the process run that appended it
	Seq    int64  `json:"seq"`    // 1, 2, 3 ... within Writer, without gaps
	Prev   string `json:"prev"`   // Hash of Seq-1 of the same writer, "" for Seq 1
	Hash   string `json:"hash"`   // lower-case hex SHA-256, see Sum
}
