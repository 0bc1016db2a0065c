package spiffe

import (
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Reads reports whether a bundle of a trust domain is accepted, and how many keys
// of each use it has.
func Reads(td string, text []byte) (jwt, x509 int, err error) {
	b, _, err := parseBundle(spiffeid.RequireTrustDomainFromString(td), text)
	if err != nil {
		return 0, 0, err
	}
	return len(b.jwt.Keys()), len(b.x509.X509Authorities()), nil
}

// Matches reports whether a SPIFFE ID's path is one of a pattern's.
func Matches(text, id string) (bool, error) {
	p, err := parsePattern(text)
	if err != nil {
		return false, err
	}
	i, err := parseID(id)
	return err == nil && p.matches(i.Path()), err
}

// ParseID is parseID.
func ParseID(s string) (string, error) {
	id, err := parseID(s)
	return id.String(), err
}
