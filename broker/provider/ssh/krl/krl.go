package krl

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

const (
	magic         uint64 = 0x5353484b524c0a00 // "SSHKRL\n\0"
	formatVersion uint32 = 1

	sectionCerts  byte = 1
	sectionKeys   byte = 2
	sectionSHA1   byte = 3
	sectionSHA256 byte = 5

	certSerials byte = 0x20
	certRange   byte = 0x21
	certBitmap  byte = 0x22
	certKeyIDs  byte = 0x23
)

// Marshal writes the list. Equal lists are equal bytes in any order of their making: sections are
// sorted, serials merged, duplicates left out.
func (l *List) Marshal() []byte {
	b := binary.BigEndian.AppendUint64(nil, magic)
	b = binary.BigEndian.AppendUint32(b, formatVersion)
	b = binary.BigEndian.AppendUint64(b, l.Version)
	b = binary.BigEndian.AppendUint64(b, l.Date)
	b = binary.BigEndian.AppendUint64(b, 0) // flags: none is defined
	b = appendString(b, nil)                // reserved
	b = appendString(b, []byte(l.Comment))
	for _, c := range mergeCerts(l.Certs) {
		b = appendString(append(b, sectionCerts), c.marshal())
	}
	b = appendBlobs(b, sectionKeys, l.Keys)
	b = appendBlobs(b, sectionSHA1, l.SHA1)
	return appendBlobs(b, sectionSHA256, l.SHA256)
}

func appendBlobs(b []byte, section byte, blobs [][]byte) []byte {
	if len(blobs) == 0 {
		return b
	}
	sorted := slices.Clone(blobs)
	slices.SortFunc(sorted, bytes.Compare)
	var data []byte
	for _, blob := range slices.CompactFunc(sorted, bytes.Equal) {
		data = appendString(data, blob)
	}
	return appendString(append(b, section), data)
}

// marshal returns the data of one section of certificates.
func (c Certs) marshal() []byte {
	b := appendString(nil, c.CA)
	b = appendString(b, nil) // reserved
	var single []byte
	for _, r := range c.Serials {
		if r.Lo == r.Hi {
			single = binary.BigEndian.AppendUint64(single, r.Lo)
		}
	}
	if len(single) > 0 {
		b = appendString(append(b, certSerials), single)
	}
	for _, r := range c.Serials {
		if r.Lo < r.Hi {
			b = appendString(append(b, certRange), binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Lo), r.Hi))
		}
	}
	if len(c.KeyIDs) > 0 {
		var ids []byte
		for _, id := range c.KeyIDs {
			ids = appendString(ids, []byte(id))
		}
		b = appendString(append(b, certKeyIDs), ids)
	}
	return b
}

// mergeCerts makes one section for each CA, sorted, each in canonical form.
func mergeCerts(all []Certs) []Certs {
	byCA := map[string]*Certs{}
	var out []*Certs
	for _, c := range all {
		m := byCA[string(c.CA)]
		if m == nil {
			m = &Certs{CA: c.CA}
			byCA[string(c.CA)] = m
			out = append(out, m)
		}
		m.Serials = append(m.Serials, c.Serials...)
		m.KeyIDs = append(m.KeyIDs, c.KeyIDs...)
	}
	slices.SortFunc(out, func(a, b *Certs) int { return bytes.Compare(a.CA, b.CA) })
	merged := make([]Certs, 0, len(out))
	for _, c := range out {
		ids := slices.Compact(slices.Sorted(slices.Values(c.KeyIDs)))
		merged = append(merged, Certs{CA: c.CA, Serials: mergeRanges(c.Serials), KeyIDs: ids})
	}
	return merged
}

// mergeRanges sorts ranges and joins adjacent ones.
func mergeRanges(all []Range) []Range {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b Range) int { return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi)) })
	var out []Range
	for _, r := range sorted {
		r.Lo = max(r.Lo, 1)
		if r.Hi < r.Lo {
			continue
		}
		if n := len(out); n > 0 && (out[n-1].Hi == math.MaxUint64 || r.Lo <= out[n-1].Hi+1) {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

// errCut is the error of every read beyond the end of the buffer.
var errCut = errors.New("it is cut off")

// reader decodes the types of RFC 4251 section 5 from a buffer. After the first error it
// returns only zero values.
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

// fail keeps err, unless it is nil or an earlier error is kept.
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

// empty reads a string that must be empty, for the reserved fields of the format.
func (r *reader) empty(what string) {
	if b := r.str(); len(b) > 0 {
		r.fail(fmt.Errorf("%s is not empty", what))
	}
}

// more reports whether the buffer has more bytes.
func (r *reader) more() bool { return r.err == nil && len(r.rest) > 0 }

func appendString(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) //nolint:gosec // Marshal bounds what it writes
}

// List is a key revocation list. The zero List revokes nothing and is valid.
type List struct {
	Version uint64 // any number; 0 from ebb
	Date    uint64 // any time in seconds since 1970; 0 from ebb
	Comment string // any text

	Certs []Certs // certificates, by the CA that signed them

	// Plain keys, as blobs (RFC 4253 section 6.6) or as hashes of them. A listed key is
	// refused as the key of a certificate, and also as the CA of one.
	Keys   [][]byte
	SHA1   [][]byte // ebb lists none; GODEBUG=fips140=only has no SHA-1, and Parse refuses them there
	SHA256 [][]byte
}

// Certs are the certificates of one CA.
type Certs struct {
	CA      []byte // blob of the CA's public key; empty means every CA
	Serials []Range
	KeyIDs  []string
}

// Range is the range of serial numbers from Lo to Hi, both included. It never contains zero,
// the serial of certificates without one.
type Range struct{ Lo, Hi uint64 }

// One returns the range of one serial.
func One(serial uint64) Range { return Range{serial, serial} }

// Subject is the key to look up: a certificate, or a plain key if CA is empty.
type Subject struct {
	Key    []byte // blob of the plain key, not of the certificate
	CA     []byte // blob of the key that signed the certificate
	Serial uint64
	KeyID  string
}

// Revokes reports whether the list refuses s: by its key, by its CA's key, or as a
// certificate.
func (l *List) Revokes(s Subject) bool {
	if l.revokesKey(s.Key) || len(s.CA) > 0 && l.revokesKey(s.CA) {
		return true
	}
	return len(s.CA) > 0 && slices.ContainsFunc(l.Certs, func(c Certs) bool {
		return (len(c.CA) == 0 || slices.Equal(c.CA, s.CA)) && c.revokes(s.Serial, s.KeyID)
	})
}

func (l *List) revokesKey(blob []byte) bool {
	if len(blob) == 0 {
		return false
	}
	has := func(list [][]byte, want []byte) bool {
		return slices.ContainsFunc(list, func(b []byte) bool { return slices.Equal(b, want) })
	}
	sum := sha256.Sum256(blob)
	if has(l.Keys, blob) || has(l.SHA256, sum[:]) {
		return true
	}
	if len(l.SHA1) == 0 {
		return false
	}
	old := sha1.Sum(blob) //nolint:gosec // see above
	return has(l.SHA1, old[:])
}

func (c Certs) revokes(serial uint64, keyID string) bool {
	if slices.Contains(c.KeyIDs, keyID) {
		return true
	}
	return serial != 0 && slices.ContainsFunc(c.Serials, func(r Range) bool { return r.Lo <= serial && serial <= r.Hi })
}

// Join returns a list that refuses everything that at least one of the lists refuses.
func Join(lists ...List) List {
	var out List
	for _, l := range lists {
		out.Certs = append(out.Certs, l.Certs...)
		out.Keys = append(out.Keys, l.Keys...)
		out.SHA1 = append(out.SHA1, l.SHA1...)
		out.SHA256 = append(out.SHA256, l.SHA256...)
	}
	return out
}
