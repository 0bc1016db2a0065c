package krl

import (
	"crypto/sha1" //nolint:gosec // the format names keys by it; nothing is trusted because of it
	"crypto/sha256"
	"slices"
)

// List is what a key revocation list says. The zero List revokes nothing and is
// a valid list.
type List struct {
	Version uint64 // free; 0 from ebb
	Date    uint64 // free, seconds since 1970; 0 from ebb
	Comment string // free

	Certs []Certs // certificates, by the CA that signed them

	// Plain keys, as blobs (RFC 4253 section 6.6) or hashes of them. A key that is
	// listed is refused as the key of a certificate and as the CA of one, too.
	Keys   [][]byte
	SHA1   [][]byte // ebb lists none; GODEBUG=fips140=only has no SHA-1, and Parse refuses them there
	SHA256 [][]byte
}

// Certs are the certificates of one CA.
type Certs struct {
	CA      []byte // blob of the CA's public key; empty = of every CA
	Serials []Range
	KeyIDs  []string
}

// Range is the serial numbers from Lo to Hi, both included. Zero is the serial
// of certificates without one and is never in a range.
type Range struct{ Lo, Hi uint64 }

// One is the range of one serial.
func One(serial uint64) Range { return Range{serial, serial} }

// Subject is the key to look up: a certificate, or a plain key if CA is empty.
type Subject struct {
	Key    []byte // blob of the plain key, not of the certificate
	CA     []byte // blob of the key that signed the certificate
	Serial uint64
	KeyID  string
}

// Revokes reports whether the list refuses s: by its key, by its CA's key, or as
// a certificate.
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

// Join is a list that refuses what either refuses.
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
