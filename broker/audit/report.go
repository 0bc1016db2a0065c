package audit

import (
	"fmt"
	"time"
)

// Report is the result of Verify.
type Report struct {
	Entries     int    `json:"entries"`
	Checkpoints int    `json:"checkpoints"` // with a valid signature and matching heads
	Writers     []Span `json:"writers"`     // in order of first appearance

	// Partial is set if the first entries of a writer are missing from the export. The entries
	// that are present are linked, but the export does not prove anything about earlier ones.
	Partial bool `json:"partial"`
	// Missing are the writers that a checkpoint names and that are missing from a partial export.
	Missing []string `json:"missing,omitempty"`
	Keys    []string `json:"keys,omitempty"` // ids of the keys whose checkpoints count
	Revoked int      `json:"revoked"`        // checkpoints that do not count: their key was revoked before
	Losses  int      `json:"losses"`         // times that an operator accepted that entries are gone
	// Unsealed is the number of entries that no checkpoint covers. They are linked, but a party
	// with write access to the database could have rewritten or removed them.
	Unsealed int `json:"unsealed"`

	Kept         int `json:"kept"`         // answers whose stored texts are in the export and match
	Signed       int `json:"signed"`       // of these, the ones with a valid signature by a passkey that the log registered
	Unregistered int `json:"unregistered"` // of these, the ones with a valid signature by a passkey without a registration in the export
	Unkept       int `json:"unkept"`       // answers whose stored texts are not in the export

	// Proof is set for an inclusion proof. Entries are then the selected ones, and each is linked
	// to a checkpoint. Between are the other entries that link them.
	Proof   *Statement `json:"proof,omitempty"`
	Between int        `json:"between,omitempty"`
}

// Whole reports whether the export starts at the beginning of every chain and at least one
// checkpoint signs it.
func (r Report) Whole() bool {
	return r.Entries > 0 && r.Checkpoints > 0 && !r.Partial && r.Proof == nil
}

// Span is the part of one chain that an export holds.
type Span struct {
	Writer string    `json:"writer"`
	First  int64     `json:"first"`  // Seq
	Last   int64     `json:"last"`   // Seq
	Sealed int64     `json:"sealed"` // largest Seq that a checkpoint covers, 0 = none
	Hash   string    `json:"hash"`   // of Last
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
}

// Fault names the first line of an export that could not be proved, and why: the audit log was
// altered, or the input is not an export.
type Fault struct {
	Line   int    // of the export, from 1
	Writer string // "" when the line could not be read
	Seq    int64  // of the entry, or of the head of a checkpoint; 0 = none
	Why    string
}

// Error implements error.
func (f *Fault) Error() string {
	if f.Writer == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Why)
	}
	return fmt.Sprintf("line %d: writer %q seq %d: %s", f.Line, f.Writer, f.Seq, f.Why)
}
