package ssh

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/ebb-broker/ebb/broker/provider"
)

// skew is how far a host's clock may be behind that of ebb.
const skew = 60 * time.Second

// SerialOf returns the serial of a lease's certificate: the first 64 bits of the SHA-256 of the
// lease id, which has 74 random bits. The serial is therefore never stored.
func SerialOf(leaseID string) uint64 {
	sum := sha256.Sum256([]byte("ebb ssh certificate serial\x00" + leaseID))
	return max(binary.BigEndian.Uint64(sum[:]), 1) // 0 means "no serial" to OpenSSH
}

// KeyIDOf is the key id of a lease's certificate: what sshd logs at each login.
// It has no spaces and is "" when an id has not the form of one.
func KeyIDOf(instance, leaseID string) string {
	name := provider.Name(instance, leaseID)
	if name == "" {
		return ""
	}
	return "lease:" + leaseID + "/" + name
}

// certificate is what g gets, unsigned.
func (d *Driver) certificate(g provider.Grant, p plan, key ssh.PublicKey) (*ssh.Certificate, time.Time, error) {
	expires := g.ExpiresAt
	if longest := g.IssuedAt.Add(d.set.maxTTL); expires.After(longest) {
		expires = longest
	}
	expires = expires.Truncate(time.Second)
	keyID := KeyIDOf(g.Instance, g.LeaseID)
	// A zero time or one before 1970 would become a huge number: valid for ever.
	if keyID == "" || g.IssuedAt.Unix() <= int64(skew.Seconds()) || expires.Unix() <= g.IssuedAt.Unix() {
		return nil, time.Time{}, errors.New("ssh provider: the grant is incomplete")
	}
	c := &ssh.Certificate{
		Key: key, Serial: SerialOf(g.LeaseID), CertType: ssh.UserCert, KeyId: keyID, ValidPrincipals: p.principals,
		ValidAfter:  uint64(g.IssuedAt.Add(-skew).Unix()), //nolint:gosec // checked above
		ValidBefore: uint64(expires.Unix()),               //nolint:gosec // checked above
		Permissions: ssh.Permissions{CriticalOptions: map[string]string{}, Extensions: map[string]string{}},
	}
	if p.force != "" {
		c.CriticalOptions["force-command"] = p.force
	}
	if p.sources != "" {
		c.CriticalOptions["source-address"] = p.sources
	}
	for _, e := range p.extensions {
		c.Extensions[e] = ""
	}
	return c, expires, nil
}
