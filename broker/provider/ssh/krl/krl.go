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
	SHA1   [][]byte
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

// Subject is what is looked up: a certificate, or a plain key when CA is empty.
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
	old, sum := sha1.Sum(blob), sha256.Sum256(blob) //nolint:gosec // see above
	for _, c := range []struct {
		list [][]byte
		want []byte
	}{{l.Keys, blob}, {l.SHA1, old[:]}, {l.SHA256, sum[:]}} {
		if slices.ContainsFunc(c.list, func(b []byte) bool { return slices.Equal(b, c.want) }) {
			return true
		}
	}
	return false
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
