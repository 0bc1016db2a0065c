package tpm

import (
	"encoding/binary"
	"errors"
)

var (
	errShort    = errors.New("the structure ends too early")
	errTrailing = errors.New("bytes follow the structure")
	errSize     = errors.New("a field is larger than it can be")
	errValue    = errors.New("a field has a value that is not accepted")
)

// reader reads big-endian TPM structures (TPM 2.0 Part 2). The first error stays.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && len(r.b) < n {
		r.err = errShort
	}
	if r.err != nil {
		return make([]byte, n)
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() uint8   { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// sized reads a TPM2B of at most limit bytes.
func (r *reader) sized(limit int) []byte {
	n := int(r.u16())
	if n > limit {
		r.fail(errSize)
		return nil
	}
	return r.take(n)
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// end is the first error, or that something is left.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = errTrailing
	}
	return r.err
}
