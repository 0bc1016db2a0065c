package krl

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errCut is what every read of too few bytes says.
var errCut = errors.New("it is cut off")

// reader takes the types of RFC 4251 section 5 off a buffer. After the first
// error it gives nothing more.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.rest) {
		r.fail(errCut)
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// fail notes err, unless there is none or one came before.
func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.err, r.rest = err, nil
	}
}

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) str() []byte { return r.take(int(r.u32())) }

// empty reads a string that must be empty: the fields that the format reserves.
func (r *reader) empty(what string) {
	if b := r.str(); len(b) > 0 {
		r.fail(fmt.Errorf("%s is not empty", what))
	}
}

// more reports whether something is left to read.
func (r *reader) more() bool { return r.err == nil && len(r.rest) > 0 }

func appendString(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) //nolint:gosec // Marshal bounds what it writes
}
