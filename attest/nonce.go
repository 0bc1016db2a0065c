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

// Nonces makes and checks the nonces of challenges and keeps none: a nonce is its
// own time, randomness and a MAC over both, the attestor and the key that asked.
// Every replica with the same key accepts it, no other ebb does. That it serves
// once is the pipeline's business: make it the ReplayID.
type Nonces struct {
	key  []byte
	life time.Duration
}

// NonceLife is how long there is to answer a challenge.
const NonceLife = time.Minute

const (
	nonceTime = 8
	nonceRand = 16
	nonceSize = nonceTime + nonceRand + sha256.Size
	nonceText = (nonceSize*8 + 5) / 6
)

// NewNonces needs a random key of at least 32 bytes, shared by all replicas and
// used for nothing else.
func NewNonces(key []byte) (*Nonces, error) {
	if len(key) < 32 {
		return nil, errors.New("attest: the nonce key is shorter than 32 bytes; make one of 32 random bytes")
	}
	return &Nonces{key: append([]byte(nil), key...), life: NonceLife}, nil
}

// Issue makes a nonce for one attestor and the JKT of one proved key: 75
// characters of base64url.
func (n *Nonces) Issue(attestor, jkt string, now time.Time) (nonce string, until time.Time) {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, nonceSize), uint64(now.UnixMilli()))
	b = b[:nonceTime+nonceRand]
	_, _ = rand.Read(b[nonceTime:]) // never fails (crypto/rand)
	b = append(b, n.mac("nonce", b, attestor, jkt)...)
	return base64.RawURLEncoding.EncodeToString(b), now.Add(n.life)
}

// Challenge is that of a kind which asks for nothing but the nonce.
func (n *Nonces) Challenge(attestor string, k Key, now time.Time) (Challenge, error) {
	if k.JKT == "" {
		return Challenge{}, Reject(ReasonKeyBinding, "a challenge needs a key: prove one with DPoP", nil)
	}
	nonce, until := n.Issue(attestor, k.JKT, now)
	return Challenge{Nonce: nonce, ExpiresAt: until}, nil
}

// Check says until when a nonce vouches. One of another ebb, attestor or key, an
// altered one and one that is older than NonceLife match ErrRejected.
func (n *Nonces) Check(nonce, attestor, jkt string, now time.Time) (until time.Time, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil || len(nonce) != nonceText || len(b) != nonceSize { // the decoder skips line ends
		return time.Time{}, Reject(ReasonNonce, "the evidence does not answer a challenge of this ebb; ask for one first", err)
	}
	head := b[:nonceTime+nonceRand]
	if jkt == "" || !hmac.Equal(b[len(head):], n.mac("nonce", head, attestor, jkt)) {
		return time.Time{}, Reject(ReasonNonce, "the evidence answers a challenge that was made for another key, attestor or ebb", nil)
	}
	made := time.UnixMilli(int64(binary.BigEndian.Uint64(head)))
	if until = made.Add(n.life); !now.Before(until) {
		return time.Time{}, Reject(ReasonExpired, "the challenge is too old; ask for a new one and answer within a minute", nil)
	}
	// A replica's clock may be a little behind the one that made the nonce.
	if made.After(now.Add(n.life)) {
		return time.Time{}, Reject(ReasonNotYetValid, "the challenge is from the future; the clocks of ebb's replicas differ", nil)
	}
	return until, nil
}

// Secret is what only ebb can derive from a nonce and a context: a kind that has
// to keep a secret between challenge and answer keeps none. 32 bytes.
func (n *Nonces) Secret(nonce string, context ...string) []byte {
	return n.mac("secret", []byte(nonce), context...)
}

func (n *Nonces) mac(what string, head []byte, context ...string) []byte {
	m := hmac.New(sha256.New, n.key)
	for _, part := range append([]string{"ebb attest " + what, string(head)}, context...) {
		m.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		m.Write([]byte(part))
	}
	return m.Sum(nil)
}
