package audit

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// proof is the state of the verification of an inclusion proof.
type proof struct {
	runs  map[string][]*run // by writer, in order of seq
	heads map[place]claim   // of the checkpoints that count
}

// run is a part of a chain without a gap.
type run struct {
	span
	lines []int // of First, First+1, ...
}

// entry adds an entry to its chain; it returns why it could not.
func (p *proof) entry(e Entry, line int) string {
	runs := p.runs[e.Writer]
	if n := len(runs); n == 0 || e.Seq > runs[n-1].Last+1 {
		if why := startsChain(e); why != "" {
			return why
		}
		if n > 0 && e.At.Before(runs[n-1].To) {
			return "the time of the entry is earlier than that of the entry before it"
		}
		runs = append(runs, &run{span: span{Span: Span{Writer: e.Writer, First: e.Seq, From: e.At}}})
		p.runs[e.Writer] = runs
	} else if why := runs[n-1].follows(e); why != "" {
		return why
	}
	r := runs[len(runs)-1]
	r.add(e)
	r.lines = append(r.lines, line)
	return ""
}

// startsChain returns why e cannot be the first entry of a part of a chain.
func startsChain(e Entry) string {
	if e.Seq == 1 && e.Prev != "" || e.Seq > 1 && !validHash(e.Prev) {
		return "the hash of the previous entry is missing, malformed, or present in entry 1"
	}
	return ""
}

// add appends the next entry of the chain.
func (s *span) add(e Entry) {
	var sum [32]byte
	_, _ = hex.Decode(sum[:], []byte(e.Hash)) // it equals a Sum
	s.hashes = append(s.hashes, sum)
	s.Last, s.Hash, s.To = e.Seq, e.Hash, e.At
}

// head records one head of a checkpoint.
func (p *proof) head(writer string, h Head, c claim) string {
	at := place{writer, h.Seq}
	if was, ok := p.heads[at]; ok && was.hash != h.Hash {
		return fmt.Sprintf("the checkpoint of line %d names another hash", was.line)
	}
	p.heads[at] = c
	return ""
}

// settle compares the heads of the checkpoints with the chains. Every entry must be linked to a
// signed head.
func (p *proof) settle() error {
	var faults []*Fault
	for at, c := range p.heads {
		r := p.runAt(at)
		switch {
		case r == nil:
		case r.hash(at.seq) != c.hash:
			faults = append(faults, &Fault{c.line, at.writer, at.seq, "the checkpoint proves that the entry at this place was another one"})
		default:
			r.Sealed = max(r.Sealed, at.seq)
		}
	}
	if len(faults) > 0 {
		return firstFault(faults)
	}
	for writer, runs := range p.runs {
		for _, r := range runs {
			if next := max(r.Sealed+1, r.First); next <= r.Last {
				faults = append(faults, &Fault{r.lines[next-r.First], writer, next, "the proof does not link this entry to a signed checkpoint"})
			}
		}
	}
	if len(faults) > 0 {
		return firstFault(faults)
	}
	return nil
}

// runAt returns the run that has a place, or nil.
func (p *proof) runAt(at place) *run {
	runs := p.runs[at.writer]
	i, _ := slices.BinarySearchFunc(runs, at.seq, func(r *run, seq int64) int { return cmp.Compare(r.Last, seq) })
	if i == len(runs) || runs[i].First > at.seq {
		return nil
	}
	return runs[i]
}

// firstFault returns the fault of the first line. Faults of one checkpoint are in the order of
// writers.
func firstFault(faults []*Fault) *Fault {
	return slices.MinFunc(faults, func(a, b *Fault) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Writer, b.Writer)
	})
}
