package keys

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Policy is how keys follow each other. Zero members mean the defaults.
type Policy struct {
	Alg         jose.Alg      // of new keys: ES256 (default), EdDSA or RS256
	RotateEvery time.Duration // how long one key signs; default 30 days
	Lead        time.Duration // published this long before it signs; default 1 h
	Grace       time.Duration // verifies this long after it stopped signing; default 25 h. No own token may live longer
}

func (p Policy) withDefaults() (Policy, error) {
	p.Alg = cmp.Or(p.Alg, jose.ES256)
	if p.Alg == jose.Ed25519 {
		p.Alg = jose.EdDSA
	}
	p.RotateEvery = cmp.Or(p.RotateEvery, 30*24*time.Hour)
	p.Lead = cmp.Or(p.Lead, time.Hour)
	p.Grace = cmp.Or(p.Grace, 25*time.Hour)
	switch {
	case p.Alg != jose.ES256 && p.Alg != jose.EdDSA && p.Alg != jose.RS256:
		return p, fmt.Errorf("keys: algorithm %q cannot sign: choose ES256, EdDSA or RS256", p.Alg)
	case p.Lead < time.Second || p.Grace < time.Second:
		return p, errors.New("keys: lead and grace must be at least 1s")
	case p.RotateEvery < 2*p.Lead:
		return p, fmt.Errorf("keys: rotation every %v leaves no room for a lead of %v: rotate at most every %v", p.RotateEvery, p.Lead, 2*p.Lead)
	}
	return p, nil
}

// Ring is the set of keys that count. It is safe for concurrent use; every call
// takes the time, so that the ring itself needs no clock.
type Ring struct {
	policy Policy
	secret [secretSize]byte
	now    atomic.Pointer[[]entry]
}

type entry struct {
	Key
	pub    jose.Key
	jwk    []byte
	signed time.Time // end of signing: the successor's ActiveFrom; zero without one
}

// NewRing makes a ring of keys whose private parts may live anywhere. secret is
// 32 random bytes that outlive the process. At least one key is required.
func NewRing(p Policy, secret []byte, keys ...Key) (*Ring, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Ring{policy: p}
	if len(secret) != secretSize {
		return nil, fmt.Errorf("keys: the secret has %d bytes, not %d", len(secret), secretSize)
	}
	copy(r.secret[:], secret)
	return r, r.Replace(keys...)
}

// Replace swaps the set of keys in one step: after a rotation elsewhere, or a
// reload. On an error the ring is unchanged.
func (r *Ring) Replace(keys ...Key) error {
	if len(keys) == 0 {
		return errors.New("keys: a ring needs at least one key")
	}
	entries := make([]entry, 0, len(keys))
	for _, k := range keys {
		if k.Signer == nil {
			return errors.New("keys: a key needs a signer; make it with NewKey")
		}
		pub, err := k.public()
		if err != nil {
			return err
		}
		jwk, err := jose.MarshalPublicJWK(pub)
		if err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		if slices.ContainsFunc(entries, func(e entry) bool { return e.KID == k.KID }) {
			return fmt.Errorf("keys: key %s is in the ring twice", k.KID)
		}
		entries = append(entries, entry{Key: k, pub: pub, jwk: jwk})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(a.ActiveFrom.Compare(b.ActiveFrom), a.Created.Compare(b.Created), cmp.Compare(a.KID, b.KID))
	})
	for i := range entries[:len(entries)-1] {
		entries[i].signed = entries[i+1].ActiveFrom
	}
	r.now.Store(&entries)
	return nil
}

func (r *Ring) entries() []entry {
	if p := r.now.Load(); p != nil {
		return *p
	}
	return nil
}

// active is the index of the key that signs at now: the last one that has
// begun. Before all of them (the clock went backwards) it is the first, which
// has been published longest.
func active(entries []entry, now time.Time) int {
	for i := len(entries) - 1; i > 0; i-- {
		if !entries[i].ActiveFrom.After(now) {
			return i
		}
	}
	return 0
}

// Signer returns the key that signs at now. It fails with ErrClock if now is before the creation
// of every key, because the signed times would be wrong.
func (r *Ring) Signer(now time.Time) (s jose.Signer, kid string, alg jose.Alg, err error) {
	entries := r.entries()
	if len(entries) == 0 {
		return nil, "", "", errors.New("keys: the ring is empty; make it with NewRing or Open")
	}
	e := entries[active(entries, now)]
	if e.Created.After(now.Add(skew)) {
		return nil, "", "", tooEarly(e.Key, now)
	}
	return e.Signer, e.KID, e.Alg, nil
}

// listed reports whether the key counts at now: it will sign, it signs, or a
// token that it signed could be unexpired.
func (r *Ring) listed(e entry, now time.Time) bool {
	return e.signed.IsZero() || now.Before(e.signed.Add(r.policy.Grace))
}

// JWKS is the JWK Set (RFC 7517, section 5) to publish at now: the next, the
// active and the retired keys, oldest first. There is nothing private in it.
func (r *Ring) JWKS(now time.Time) []byte {
	var b bytes.Buffer
	b.WriteString(`{"keys":[`)
	first := true
	for _, e := range r.entries() {
		if !r.listed(e, now) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.Write(e.jwk)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// MaxAge returns the time for which the JWKS may be cached: at most half the lead, so that a
// client that honours it never sees a token of an unknown key, and at most 5 minutes, so that
// such a client soon learns that a key has been revoked.
func (r *Ring) MaxAge() time.Duration { return min(r.policy.Lead/2, 5*time.Minute) }

// KeySource finds keys for own tokens at now. Tokens must carry a kid. A key
// whose grace has passed is unknown.
func (r *Ring) KeySource(now time.Time) jose.KeySource {
	entries := r.entries()
	return func(h jose.Header) (jose.Key, error) {
		for _, e := range entries {
			if h.KID == e.KID && r.listed(e, now) {
				return e.pub, nil
			}
		}
		return jose.Key{}, jose.KeyUnknown()
	}
}

// Keys returns the keys listed at now, oldest first.
func (r *Ring) Keys(now time.Time) []Key {
	var out []Key
	for _, e := range r.entries() {
		if r.listed(e, now) {
			out = append(out, e.Key)
		}
	}
	return out
}
