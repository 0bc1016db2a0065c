package attest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// Nonces issues and checks the nonces of challenges without storing them. A nonce is
// the time of its making, 16 random bytes, and an HMAC-SHA256 over both, the attestor
// and the key that asked. Every replica with the same key accepts it. Nonces does not
// prevent a second use: a kind makes the nonce its ReplayID, and the pipeline does.
type Nonces struct {
	key  []byte
	life time.Duration
}

// NonceLife is how long a nonce is valid.
const NonceLife = time.Minute

const (
	nonceTime = 8
	nonceRand = 16
	nonceSize = nonceTime + nonceRand + sha256.Size
	nonceText = (nonceSize*8 + 5) / 6
)

// NewNonces returns a Nonces with key, which must be at least 32 random bytes, the same
// on all replicas, and used for nothing else.
func NewNonces(key []byte) (*Nonces, error) {
	if len(key) < 32 {
		return nil, errors.New("attest: the nonce key is shorter than 32 bytes; generate one of 32 random bytes")
	}
	return &Nonces{key: append([]byte(nil), key...), life: NonceLife}, nil
}

// Issue returns a nonce for one attestor and the JKT of one proved key, 75 characters
// of base64url, and the time until which Check accepts it.
func (n *Nonces) Issue(attestor, jkt string, now time.Time) (nonce string, until time.Time) {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, nonceSize), uint64(now.UnixMilli()))
	b = b[:nonceTime+nonceRand]
	_, _ = rand.Read(b[nonceTime:]) // never fails (crypto/rand)
	b = append(b, n.mac("nonce", b, attestor, jkt)...)
	return base64.RawURLEncoding.EncodeToString(b), now.Add(n.life)
}

// Challenge returns a challenge that consists of a nonce only. The caller must have
// proved a key with DPoP; otherwise the error matches ErrRejected.
func (n *Nonces) Challenge(attestor string, k Key, now time.Time) (Challenge, error) {
	if k.JKT == "" {
		return Challenge{}, Reject(ReasonKeyBinding, "a challenge needs a proved key; send a DPoP proof with the request", nil)
	}
	nonce, until := n.Issue(attestor, k.JKT, now)
	return Challenge{Nonce: nonce, ExpiresAt: until}, nil
}

// Check returns the expiry of a nonce. The error matches ErrRejected when the nonce was
// altered, is older than NonceLife, or was issued by an ebb with another key, for
// another attestor or for another caller's key.
func (n *Nonces) Check(nonce, attestor, jkt string, now time.Time) (until time.Time, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil || len(nonce) != nonceText || len(b) != nonceSize { // len(nonce): the decoder skips line ends
		return time.Time{}, Reject(ReasonNonce, "the evidence has no nonce of this ebb; request a challenge first", err)
	}
	head := b[:nonceTime+nonceRand]
	if jkt == "" || !hmac.Equal(b[len(head):], n.mac("nonce", head, attestor, jkt)) {
		return time.Time{}, Reject(ReasonNonce, "the nonce was issued for another key, attestor or ebb; request a challenge with the key that sends the evidence", nil)
	}
	made := time.UnixMilli(int64(binary.BigEndian.Uint64(head)))
	if until = made.Add(n.life); !now.Before(until) {
		return time.Time{}, Reject(ReasonExpired, "the nonce has expired; request a new challenge and send the evidence within a minute", nil)
	}
	// The clock of another replica, which issued the nonce, may be slightly ahead.
	if made.After(now.Add(n.life)) {
		return time.Time{}, Reject(ReasonNotYetValid, "the nonce was issued in the future; synchronise the clocks of the replicas of ebb", nil)
	}
	return until, nil
}

// Secret derives 32 bytes from a nonce and a context with the key of n. A kind that
// needs a secret for both the challenge and the check of its answer derives it twice
// instead of storing it.
func (n *Nonces) Secret(nonce string, context ...string) []byte {
	return n.mac("secret", []byte(nonce), context...)
}

// mac returns an HMAC-SHA256 over length-prefixed parts. purpose separates the MACs of
// nonces from derived secrets.
func (n *Nonces) mac(purpose string, head []byte, context ...string) []byte {
	m := hmac.New(sha256.New, n.key)
	for _, part := range append([]string{"ebb attest " + purpose, string(head)}, context...) {
		m.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		m.Write([]byte(part))
	}
	return m.Sum(nil)
}
