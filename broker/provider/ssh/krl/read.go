package krl

import (
	"bytes"
	"crypto/fips140"
	"errors"
	"fmt"
	"math"
	mathbits "math/bits"
	"slices"
	"unicode/utf8"
)

const (
	// MaxSize bounds a list, in bytes: half a million serials.
	MaxSize = 4 << 20
	// maxRanges is the maximum number of ranges from the bitmaps of a list.
	maxRanges = 1 << 20
)

// Parse reads a list. It refuses unknown sections, reserved fields that are not empty, empty or
// inverted ranges, and trailing bytes.
func Parse(b []byte) (List, error) {
	if len(b) > MaxSize {
		return List{}, fmt.Errorf("krl: larger than %d bytes", MaxSize)
	}
	r := &reader{rest: b}
	if m := r.u64(); r.err != nil || m != magic {
		return List{}, errors.New("krl: it does not begin like a key revocation list")
	}
	if v := r.u32(); r.err == nil && v != formatVersion {
		return List{}, fmt.Errorf("krl: format version %d is not known", v)
	}
	l := List{Version: r.u64(), Date: r.u64()}
	if flags := r.u64(); flags != 0 {
		r.fail(errors.New("unknown flags"))
	}
	r.empty("the reserved field")
	l.Comment = r.text("the comment")
	for r.more() {
		kind := r.u8()
		data := r.str()
		if r.err == nil {
			r.fail(l.section(kind, data))
		}
	}
	if r.err != nil {
		return List{}, fmt.Errorf("krl: %w", r.err)
	}
	l.Certs = mergeCerts(l.Certs)
	return l, nil
}

func (l *List) section(kind byte, data []byte) error {
	switch kind {
	case sectionCerts:
		return l.certs(data)
	case sectionKeys:
		return blobs(data, 0, &l.Keys)
	case sectionSHA1:
		if fips140.Enforced() {
			return errors.New("it names keys by SHA-1, which GODEBUG=fips140=only forbids; name them whole or by sha256 (ssh-keygen -k), or run ebb with GODEBUG=fips140=on")
		}
		return blobs(data, 20, &l.SHA1)
	case sectionSHA256:
		return blobs(data, 32, &l.SHA256)
	}
	return fmt.Errorf("section of unknown type %d", kind)
}

// blobs reads strings of size bytes, or non-empty strings if size is 0.
func blobs(data []byte, size int, into *[][]byte) error {
	for r := (&reader{rest: data}); ; {
		if !r.more() {
			return r.err
		}
		b := r.str()
		if r.err == nil && (len(b) == 0 || size > 0 && len(b) != size) {
			return fmt.Errorf("a key or hash of %d bytes", len(b))
		}
		if r.err == nil {
			*into = append(*into, slices.Clone(b))
		}
	}
}

func (l *List) certs(data []byte) error {
	r := &reader{rest: data}
	c := Certs{CA: slices.Clone(r.str())}
	r.empty("the reserved field of a section")
	for r.more() {
		kind := r.u8()
		part := &reader{rest: r.str()}
		if r.err != nil {
			break
		}
		switch kind {
		case certSerials:
			c.list(part)
		case certRange:
			c.add(part, part.u64(), part.u64())
		case certBitmap:
			c.bitmap(part)
		case certKeyIDs:
			for part.more() {
				c.KeyIDs = append(c.KeyIDs, part.text("a key id"))
			}
		default:
			part.fail(fmt.Errorf("part of unknown type %#x", kind))
		}
		if part.err == nil && len(part.rest) > 0 {
			part.fail(errors.New("a part is longer than what it holds"))
		}
		if part.err != nil {
			r.fail(part.err)
		}
	}
	l.Certs = append(l.Certs, c)
	return r.err
}

func (c *Certs) list(r *reader) {
	for r.more() {
		n := r.u64()
		c.add(r, n, n)
	}
}

func (c *Certs) add(r *reader, lo, hi uint64) {
	switch {
	case r.err != nil:
	case lo == 0 || hi < lo:
		r.fail(errors.New("a range of serials is empty or begins at zero"))
	case len(c.Serials) >= maxRanges:
		r.fail(fmt.Errorf("more than %d ranges of serials", maxRanges))
	default:
		c.Serials = append(c.Serials, Range{lo, hi})
	}
}

// bitmap reads a first serial and a number (mpint: the highest byte first, a zero byte before
// a set sign bit). Each set bit of the number stands for a serial, counted from the first.
func (c *Certs) bitmap(r *reader) {
	first, bits := r.u64(), r.str()
	if len(bits) > 0 && bits[0]&0x80 != 0 {
		r.fail(errors.New("a bitmap is a negative number"))
	}
	bits = bytes.TrimLeft(bits, "\x00")
	n := uint64(len(bits)) * 8
	if n > 0 {
		n -= uint64(mathbits.LeadingZeros8(bits[0])) //nolint:gosec // 0 to 8
	}
	if r.err == nil && n > 0 && first > math.MaxUint64-(n-1) {
		r.fail(errors.New("a bitmap goes beyond the largest serial"))
	}
	var run Range
	open := false
	for i := uint64(0); i < n && r.err == nil; i++ {
		set := bits[uint64(len(bits))-1-i/8]>>(i%8)&1 == 1
		switch {
		case set && !open:
			run, open = One(first+i), true
		case set:
			run.Hi = first + i
		case open:
			c.add(r, run.Lo, run.Hi)
			open = false
		}
	}
	if open {
		c.add(r, run.Lo, run.Hi)
	}
}

func (r *reader) text(what string) string {
	b := r.str()
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		r.fail(fmt.Errorf("%s is no text", what))
	}
	return string(b)
}
