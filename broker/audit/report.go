package audit

import (
	"fmt"
	"time"
)

// Report is what Verify proved.
type Report struct {
	Entries     int    `json:"entries"`
	Checkpoints int    `json:"checkpoints"` // whose signature and heads hold
	Writers     []Span `json:"writers"`     // in order of first appearance

	// Partial: some writer's first entries are not in the export. What is there
	// holds together, but nobody can say what came before.
	Partial bool `json:"partial"`
	// Missing are writers that a checkpoint names and a partial export has not.
	Missing []string `json:"missing,omitempty"`
	Keys    []string `json:"keys,omitempty"` // ids of the keys whose checkpoints count
	Revoked int      `json:"revoked"`        // checkpoints that do not count: their key was revoked before
	Losses  int      `json:"losses"`         // times that an operator accepted that entries are gone
	// Unsealed is how many entries no checkpoint covers: they are linked, but
	// whoever can write to the store could have rewritten or cut them off.
	Unsealed int `json:"unsealed"`

	Kept         int `json:"kept"`         // answers of which the export has what was kept, as it was
	Signed       int `json:"signed"`       // of these, those whose passkey's signature holds, by a key that the record registered
	Unregistered int `json:"unregistered"` // and those whose signature holds by a key of which the export does not say whose it is
	Unkept       int `json:"unkept"`       // answers of which something was kept that is not in the export
}

// Whole reports whether the export starts at the beginning of every chain and
// at least one checkpoint vouches for it.
func (r Report) Whole() bool { return r.Entries > 0 && r.Checkpoints > 0 && !r.Partial }

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

// Fault says where an export stops being true, and why. It means that the record
// was altered, or that the export is not one.
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
