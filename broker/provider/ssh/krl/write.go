package krl

import (
	"bytes"
	"cmp"
	"encoding/binary"
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

// marshal is the data of one section of certificates.
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

// mergeCerts makes one section a CA, in order, each in canonical form.
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

// mergeRanges sorts ranges and joins those that meet.
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
