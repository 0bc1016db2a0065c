package audit

import (
	"encoding/hex"
	"fmt"
)

// span is a chain as far as it was read.
type span struct {
	Span
	hashes [][32]byte // of First, First+1, ...
}

func (s *span) follows(e Entry) string {
	switch {
	case e.Seq < s.First:
		return fmt.Sprintf("the order was changed: the export already starts at seq %d", s.First)
	case e.Seq <= s.Last && s.hash(e.Seq) == e.Hash:
		return "the entry is here twice"
	case e.Seq <= s.Last:
		return "the chain was forked: another entry has the same place"
	case e.Seq != s.Last+1:
		return fmt.Sprintf("entries are missing: the one before it is seq %d", s.Last)
	case e.Prev != s.Hash:
		return "the entry before it was changed: it does not have the hash that this one links to"
	case e.At.Before(s.To):
		return "the time runs backwards"
	}
	return ""
}

func (s *span) hash(seq int64) string {
	h := s.hashes[seq-s.First]
	return hex.EncodeToString(h[:])
}
