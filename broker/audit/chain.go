package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Sum returns the lower-case hex SHA-256 over the RFC 8785 canonical JSON of e without the member
// hash. For an entry without a canonical form (see Entry) it returns "", which is not a valid Hash.
func Sum(e Entry) string {
	var buf [1024]byte
	out, err := appendEntry(buf[:0], &e, false)
	if err != nil {
		return ""
	}
	return hexSum(out)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// Chain is the state of one writer's chain. The zero Chain has no writer and links no entry. It is
// not safe for concurrent use; copy it before a change that may be rolled back.
type Chain struct {
	writer string
	last   Head
	at     time.Time
	buf    []byte
}

// NewChain starts the chain of a writer that never wrote before.
func NewChain(writer string) (*Chain, error) {
	w := writerOf(writer)
	if writer == "" || w.err != nil {
		return nil, errors.New("a chain needs a writer id of 1 to 512 bytes without control characters")
	}
	return &Chain{writer: writer}, nil
}

func writerOf(id string) writer {
	var w writer
	w.text(id)
	return w
}

// ResumeChain continues after last, whose hash must be correct.
func ResumeChain(last Entry) (*Chain, error) {
	if last.Seq < 1 || last.Hash == "" || Sum(last) != last.Hash {
		return nil, fmt.Errorf("the last entry of writer %q does not have the hash it claims: the stored record was altered", last.Writer)
	}
	c, err := NewChain(last.Writer)
	if err != nil {
		return nil, err
	}
	c.last, c.at = Head{Seq: last.Seq, Hash: last.Hash}, last.At
	return c, nil
}

// Writer returns the id of the writer.
func (c *Chain) Writer() string { return c.writer }

// Head returns the last linked entry; the zero Head before the first.
func (c *Chain) Head() Head { return c.last }

// Mark and Reset undo links: Reset removes every entry that was linked after Mark.
func (c *Chain) Mark() Chain { return Chain{writer: c.writer, last: c.last, at: c.at} }

func (c *Chain) Reset(m Chain) { c.last, c.at = m.last, m.at }

// Draft checks the caller's members and converts them to the form that Link uses: Data canonical,
// At in milliseconds UTC. A bad entry is thereby refused to its caller, before other callers'
// entries depend on it.
func Draft(e Entry) (Entry, error) {
	e, err := normal(e)
	if err != nil {
		return Entry{}, err
	}
	w := writer{out: make([]byte, 0, 256)}
	for _, s := range [...]string{e.Actor, e.TaskID, e.LeaseID, e.RequestID} {
		w.text(s)
	}
	return e, w.err
}

// normal is Draft without the checks that appendEntry repeats.
func normal(e Entry) (Entry, error) {
	if !Known(e.Kind) {
		return Entry{}, fmt.Errorf("unknown kind of audit entry %q", e.Kind)
	}
	if e.Actor == "" {
		return Entry{}, errors.New("an audit entry needs an actor")
	}
	if e.At = e.At.UTC().Truncate(time.Millisecond); !Writable(e.At) {
		return Entry{}, errTime // Link would replace the time by that of the previous entry
	}
	if len(e.Data) > 0 {
		canon, err := canonicalObject(e.Data)
		if err != nil {
			return Entry{}, err
		}
		e.Data = canon
	}
	return e, nil
}

// Link makes e the next entry: it fills Writer, Seq, Prev and Hash, and converts Data to canonical
// form and At to milliseconds. Within a chain At never decreases: an entry that was overtaken, or
// that was made after the clock was set back, gets the time of its predecessor. The order of times
// and the order of the chain are then the same.
func (c *Chain) Link(e *Entry) error {
	if c.writer == "" {
		return errors.New("a chain without a writer links nothing")
	}
	next, err := normal(*e)
	if err != nil {
		return err
	}
	if next.At.Before(c.at) {
		next.At = c.at
	}
	next.Writer, next.Seq, next.Prev, next.Hash = c.writer, c.last.Seq+1, c.last.Hash, ""
	out, err := appendEntry(c.buf[:0], &next, false)
	if err != nil {
		return err
	}
	c.buf = out
	next.Hash = hexSum(out)
	*e = next
	c.last, c.at = Head{Seq: next.Seq, Hash: next.Hash}, next.At
	return nil
}
