package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gowebpki/jcs"
)

// Entry is one line of the audit log. The caller fills the first block. The store that appends the
// entry fills Writer, Seq, Prev and Hash, which link it to the previous entry of the same writer.
//
// Its JSON form is RFC 8785 canonical JSON, with At in RFC 3339 UTC and always three decimals, so
// that decoding and encoding restores the same bytes.
type Entry struct {
	At        time.Time       `json:"at"`                   // when it happened, UTC, millisecond precision
	Kind      string          `json:"kind"`                 // one of the Kind constants, e.g. "lease.issued"
	Actor     string          `json:"actor"`                // principal or sandbox id that caused it; "ebb" for the broker itself
	TaskID    string          `json:"task_id,omitempty"`    // task it belongs to
	LeaseID   string          `json:"lease_id,omitempty"`   // credential it is about (= jti of an own token)
	RequestID string          `json:"request_id,omitempty"` // approval request that it is about
	Data      json.RawMessage `json:"data,omitempty"`       // facts, one JSON object; never a secret

	Writer string `json:"writer"` // id of the process run that appended it
	Seq    int64  `json:"seq"`    // 1, 2, 3 ... within Writer, without gaps
	Prev   string `json:"prev"`   // Hash of Seq-1 of the same writer, "" for Seq 1
	Hash   string `json:"hash"`   // lower-case hex SHA-256, see Sum
}

// timeForm is RFC 3339 with exactly three decimals.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

// Limits of one entry.
const (
	MaxData = 64 << 10 // bytes of Data
	MaxName = 512      // bytes of any other member
)

var errNotEntry = errors.New("not an audit entry in canonical form")

// MarshalJSON writes the canonical form, Hash included.
func (e Entry) MarshalJSON() ([]byte, error) { return appendEntry(nil, &e, true) }

// AppendJSON appends the canonical form, Hash included.
func (e *Entry) AppendJSON(b []byte) ([]byte, error) { return appendEntry(b, e, true) }

// UnmarshalJSON reads the output of MarshalJSON, re-indented or not. It refuses unknown, duplicate
// and differently cased members, and times of another form: two readers must never read different
// entries from one line.
func (e *Entry) UnmarshalJSON(b []byte) error {
	type plain Entry
	var p plain
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("%w: %v", errNotEntry, err)
	}
	out := Entry(p)
	out.At = out.At.UTC()
	again, err := appendEntry(make([]byte, 0, len(b)), &out, true)
	if err != nil {
		return fmt.Errorf("%w: %v", errNotEntry, err)
	}
	if !bytes.Equal(again, b) {
		canon, err := jcs.Transform(b)
		if err != nil {
			return fmt.Errorf("%w: %v", errNotEntry, err)
		}
		if !bytes.Equal(again, canon) {
			return errNotEntry
		}
	}
	*e = out
	return nil
}

// appendEntry appends the canonical JSON of e: members sorted by name.
func appendEntry(out []byte, e *Entry, withHash bool) ([]byte, error) {
	w := writer{out: append(out, '{')}
	w.member("actor", e.Actor)
	w.time("at", e.At)
	if len(e.Data) > 0 {
		w.object("data", e.Data)
	}
	if withHash {
		w.member("hash", e.Hash)
	}
	w.member("kind", e.Kind)
	w.optional("lease_id", e.LeaseID)
	w.member("prev", e.Prev)
	w.optional("request_id", e.RequestID)
	w.integer("seq", e.Seq)
	w.optional("task_id", e.TaskID)
	w.member("writer", e.Writer)
	return append(w.out, '}'), w.err
}
