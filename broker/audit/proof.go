package audit

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/gowebpki/jcs"
)

// Statement describes an inclusion proof in its first line, {"proof":{...}}. The exporter writes it.
// A verifier reports it, but cannot check it.
type Statement struct {
	List     string            `json:"list"`     // the list that was exported: audit, credentials
	Filter   map[string]string `json:"filter"`   // the filter of the list
	Unsigned int               `json:"unsigned"` // selected entries that were left out, because no checkpoint covers them yet
}

// MaxStatement is the maximum size of the first line of a proof, in bytes.
const MaxStatement = 16 << 10

// Long reports whether the first line of a proof would be longer than MaxStatement.
func (s Statement) Long() bool {
	s.Unsigned = math.MaxInt // any number of entries fits
	b, err := json.Marshal(ProofLine{Statement: &s})
	return err != nil || len(ASCII(b)) > MaxStatement
}

// ProofLine is one line of an inclusion proof. One of Statement, Entry and Checkpoint is set.
type ProofLine struct {
	Statement  *Statement
	Entry      *Entry
	Between    bool // Entry links selected entries to a checkpoint and is not selected
	Checkpoint *Checkpoint
}

// MarshalJSON writes {"proof":{...}}, an entry, {"between":{...}} around an entry, or
// {"checkpoint":{...}}.
func (l ProofLine) MarshalJSON() ([]byte, error) {
	switch {
	case l.Statement != nil:
		return json.Marshal(map[string]Statement{"proof": *l.Statement})
	case l.Checkpoint != nil:
		return json.Marshal(map[string]Checkpoint{"checkpoint": *l.Checkpoint})
	case l.Between:
		return json.Marshal(map[string]*Entry{"between": l.Entry})
	}
	return json.Marshal(l.Entry)
}

// Selection is a set of entries for an inclusion proof. The zero Selection is empty.
type Selection struct {
	chains  map[string]map[int64]bool // by writer and seq: true = selected, false = only needed for the proof
	n       int
	revoked signers
}

// Add selects an entry. An entry that is added again counts once.
func (s *Selection) Add(e Entry) {
	if !s.chains[e.Writer][e.Seq] {
		s.put(e, true)
		s.n++
	}
}

func (s *Selection) put(e Entry, selected bool) {
	if s.chains == nil {
		s.chains = map[string]map[int64]bool{}
	}
	if s.chains[e.Writer] == nil {
		s.chains[e.Writer] = map[int64]bool{}
	}
	s.chains[e.Writer][e.Seq] = selected
}

// Revoke reads a key.revoked entry. Checkpoints that the key signed after its revocation are not
// used, and the proof contains the entry, so that a verifier learns of the revocation.
func (s *Selection) Revoke(e Entry) error {
	if !s.chains[e.Writer][e.Seq] {
		s.put(e, false)
	}
	return s.revoked.read(e)
}

// Has reports whether an entry is selected.
func (s *Selection) Has(e Entry) bool { return s.chains[e.Writer][e.Seq] }

// Len returns the number of selected entries.
func (s *Selection) Len() int { return s.n }

// Range is a part of one chain, both ends included.
type Range struct {
	Writer      string
	First, Last int64
}

// Ranges returns the parts of the chains that prove the selected entries: each begins at an entry
// of s and ends at the next head of that chain in points. used are the checkpoints that sign these
// heads. unsigned is the number of selected entries that no checkpoint covers.
func (s *Selection) Ranges(points []Checkpoint) (ranges []Range, used []Checkpoint, unsigned int) {
	points = s.counting(points)
	signs := map[int]bool{} // by index in points
	for _, writer := range slices.Sorted(maps.Keys(s.chains)) {
		at := map[int64]int{} // seq of a head -> index in points
		for i, p := range points {
			if h, ok := p.Heads[writer]; ok {
				at[h.Seq] = i
			}
		}
		heads := slices.Sorted(maps.Keys(at))
		var last int64
		for _, seq := range slices.Sorted(maps.Keys(s.chains[writer])) {
			i, _ := slices.BinarySearch(heads, seq)
			switch {
			case seq <= last:
			case i == len(heads):
				if s.chains[writer][seq] {
					unsigned++
				}
			default:
				last = heads[i]
				ranges = append(ranges, Range{writer, seq, last})
				signs[at[last]] = true
			}
		}
	}
	for _, i := range slices.Sorted(maps.Keys(signs)) {
		used = append(used, points[i])
	}
	return ranges, used, unsigned
}

// counting returns the checkpoints that no revoked key signed after its revocation.
func (s *Selection) counting(points []Checkpoint) []Checkpoint {
	if len(s.revoked.revoked) == 0 {
		return points
	}
	return slices.DeleteFunc(slices.Clone(points), func(c Checkpoint) bool {
		_, counts, err := s.revoked.verify(c) // s.revoked has no keys, so verify returns no error only for a revoked key
		return err == nil && !counts
	})
}

// Prefixes of the lines of a proof that are neither entries nor checkpoints.
const (
	statementLine = `{"proof"`
	betweenLine   = `{"between"`
)

// readStatement reads the first line of a proof.
func (v *verifier) readStatement(line []byte) error {
	var wrap struct {
		Proof Statement `json:"proof"`
	}
	if len(line) > MaxStatement || !readStrict(line, &wrap) || wrap.Proof.Unsigned < 0 {
		return v.fault("the first line of the proof cannot be read")
	}
	if v.line != 1 {
		return v.fault(`the line {"proof":{...}} is not the first line of the proof`)
	}
	v.proof = &proof{runs: map[string][]*run{}, heads: map[place]claim{}}
	v.counts.Proof = &wrap.Proof
	return nil
}

// readBetween reads {"between":{...}}.
func (v *verifier) readBetween(line []byte) (Entry, error) {
	var wrap struct {
		Between Entry `json:"between"`
	}
	if v.proof == nil || !readStrict(line, &wrap) {
		return Entry{}, v.fault(`the line is not a {"between":{...}} object of a proof`)
	}
	return wrap.Between, nil
}

// readStrict decodes a line into to, and reports whether the line has nothing else: its canonical
// form is that of to.
func readStrict(line []byte, to any) bool {
	if json.Unmarshal(line, to) != nil {
		return false
	}
	again, err := json.Marshal(to)
	if err != nil {
		return false
	}
	want, err1 := jcs.Transform(line)
	got, err2 := jcs.Transform(again)
	return err1 == nil && err2 == nil && bytes.Equal(want, got)
}
