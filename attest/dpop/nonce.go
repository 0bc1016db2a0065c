package dpop

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// Nonces issues and checks server nonces without storing them. A nonce is the HMAC of the
// current time slice. Every replica with the same key accepts it during its own slice and
// the next. Its base64url text is within the NQCHAR of RFC 9449, section 8.1.
type Nonces struct {
	key  []byte
	life time.Duration
}

// NewNonces returns a Nonces with key and life. key must be at least 32 random bytes, the
// same on all replicas, and used for nothing else. life is the length of a slice; 5 minutes
// is usual. A nonce is accepted for one to two slices.
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

// Memory records since when a server remembers which proofs were used. It begins anew when
// the server starts without the proofs of its predecessor, and when the store of the proofs
// loses data.
type Memory struct {
	// Began is zero for a server that has lost no proofs.
	Began time.Time
	// Nonce is random and was made when the memory began or later, so a proof that contains
	// it was made after that. "" means that there is none yet.
	Nonce string
}

// apart is how far the clocks of a server's processes, earlier ones included, may differ.
const apart = time.Minute

// Covers reports whether the memory would contain an earlier use of p. It returns false when
// p could have been accepted before the memory began. The client chooses iat, which may be
// ahead, so only the nonce shows that such a proof is new.
func (m Memory) Covers(p Proof) bool {
	return m.Began.IsZero() || p.From.After(m.Began.Add(apart)) || m.Nonce != "" && p.Nonce == m.Nonce
}

// Young reports whether proofs that arrive at now may need the nonce. The server offers the
// nonce as long as Young returns true (RFC 9449, section 8.2). window is the larger of
// Options.Past and Options.Future; 0 means 60 s.
func (m Memory) Young(now time.Time, window time.Duration) bool {
	return !m.Began.IsZero() && now.Before(m.Began.Add(2*apart+2*orDefault(window)))
}
