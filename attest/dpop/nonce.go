package dpop

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// Nonces makes and checks server nonces without keeping any: a nonce is the
// HMAC of the current slice of time, so that every replica with the same key
// accepts it, during its own slice and the next. base64url is within the NQCHAR
// of RFC 9449, section 8.1.
type Nonces struct {
	key  []byte
	life time.Duration
}

// NewNonces needs a random key of at least 32 bytes, shared by all replicas and
// used for nothing else, and the length of a slice (5 minutes is usual). A nonce
// is accepted for one to two slices.
func NewNonces(key []byte, life time.Duration) (*Nonces, error) {
	if len(key) < 32 {
		return nil, errors.New("dpop: the nonce key is shorter than 32 bytes; make one of 32 random bytes")
	}
	if life < time.Second {
		return nil, errors.New("dpop: the lifetime of nonces is under a second; 5m is usual")
	}
	return &Nonces{key: append([]byte(nil), key...), life: life}, nil
}

// Issue returns the nonce to send in DPoP-Nonce now.
func (n *Nonces) Issue(now time.Time) string { return n.at(n.slice(now)) }

// Check reports whether a nonce is the current or the previous one.
func (n *Nonces) Check(nonce string, now time.Time) bool {
	cur := n.slice(now)
	return hmac.Equal([]byte(nonce), []byte(n.at(cur))) || hmac.Equal([]byte(nonce), []byte(n.at(cur-1)))
}

func (n *Nonces) slice(now time.Time) int64 { return now.UnixMilli() / n.life.Milliseconds() }

func (n *Nonces) at(slice int64) string {
	m := hmac.New(sha256.New, n.key)
	m.Write([]byte("ebb dpop nonce\x00"))
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(slice)))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:24])
}
