package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Sum is the lower-case hex SHA-256 over the RFC 8785 canonical JSON of e
// without the member hash. An entry that has no canonical form (see Entry) has
// the sum "", which is no valid Hash.
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

// Chain is where one writer's chain stands. The zero Chain has no writer and
// links nothing. It is not safe for concurrent use; copy it to try something
// that may be rolled back.
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

// ResumeChain continues after last, which must be consistent in itself.
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

// Writer is whose chain it is.
func (c *Chain) Writer() string { return c.writer }

// Head is the last linked entry; the zero Head before the first.
func (c *Chain) Head() Head { return c.last }

// Mark and Reset undo links: what was linked after Mark never happened.
func (c *Chain) Mark() Chain   { return Chain{writer: c.writer, last: c.last, at: c.at} }
func (c *Chain) Reset(m Chain) { c.last, c.at = m.last, m.at }

// Draft checks what the caller filled and brings it into the form that Link
// keeps, Data canonical and At in milliseconds UTC, so that a bad entry is told
// to its author before anybody else's work depends on it.
func Draft(e Entry) (Entry, error) {
	if !Known(e.Kind) {
		return Entry{}, fmt.Errorf("unknown kind of audit entry %q", e.Kind)
	}
	if e.Actor == "" {
		return Entry{}, errors.New("an audit entry needs an actor")
	}
	e.At = e.At.UTC().Truncate(time.Millisecond)
	if len(e.Data) > 0 {
		canon, err := canonicalObject(e.Data)
		if err != nil {
			return Entry{}, err
		}
		e.Data = canon
	}
	w := writer{out: append(make([]byte, 0, 256), '{')}
	w.time("at", e.At)
	for _, s := range [...]string{e.Actor, e.TaskID, e.LeaseID, e.RequestID} {
		w.text(s)
	}
	return e, w.err
}

// Link makes e the next entry: it fills Writer, Seq, Prev and Hash, brings Data
// into canonical form and At to milliseconds. Within a chain At never runs
// backwards: an entry that was overtaken on its way, or a clock that was set
// back, takes the time of the entry before, so that the order of time and the
// order of the chain are one.
func (c *Chain) Link(e *Entry) error {
	if c.writer == "" {
		return errors.New("a chain without a writer links nothing")
	}
	next, err := Draft(*e)
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
