package keys

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// rsaBits is the least that RFC 7518 section 3.3 allows: keys live weeks and
// their signatures minutes, and a longer key makes every mint slower.
const rsaBits = 2048

// Key is one signing key and its dates, which never change after it was made.
type Key struct {
	KID        string      // RFC 7638 thumbprint of the public key
	Alg        jose.Alg    // ES256, EdDSA or RS256
	Created    time.Time   // when it was made
	ActiveFrom time.Time   // it signs from here on, until its successor's ActiveFrom
	RetireAt   time.Time   // planned end of signing; without a successor it signs on
	Signer     jose.Signer // the private key, or a handle to where it lives
}

// NewKey makes a Key of any signer. Dates are truncated to seconds. It refuses
// dates out of order and keys that jose cannot sign with.
func NewKey(s jose.Signer, created, activeFrom, retireAt time.Time) (Key, error) {
	if s == nil {
		return Key{}, errors.New("keys: a key needs a signer")
	}
	alg, err := jose.AlgOf(s.Public())
	if err != nil {
		return Key{}, fmt.Errorf("keys: %w", err)
	}
	kid, err := jose.Thumbprint(s.Public())
	if err != nil {
		return Key{}, fmt.Errorf("keys: %w", err)
	}
	k := Key{
		KID: kid, Alg: alg, Signer: s,
		Created: second(created), ActiveFrom: second(activeFrom), RetireAt: second(retireAt),
	}
	if k.Created.IsZero() || k.ActiveFrom.Before(k.Created) || !k.RetireAt.After(k.ActiveFrom) {
		return Key{}, errors.New("keys: the dates of a key must be in order: created, active_from, retire_at")
	}
	return k, nil
}

func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// public is the key as jose publishes it.
func (k Key) public() (jose.Key, error) {
	pub, err := jose.NewKey(k.KID, k.Signer.Public())
	if err != nil {
		return jose.Key{}, fmt.Errorf("keys: %w", err)
	}
	pub.Use, pub.Algs = "sig", []jose.Alg{k.Alg}
	return pub, nil
}

// generate makes a private key for an algorithm. It discards keys whose key id begins with "-", because
// `ebb keys revoke` would take such an id for a flag.
func generate(alg jose.Alg) (jose.Signer, error) {
	for {
		s, err := random(alg)
		if err != nil {
			return nil, err
		}
		if kid, err := jose.Thumbprint(s.Public()); err != nil || !strings.HasPrefix(kid, "-") {
			return s, err
		}
	}
}

func random(alg jose.Alg) (jose.Signer, error) {
	switch alg {
	case jose.ES256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA, jose.Ed25519:
		_, k, err := ed25519.GenerateKey(rand.Reader)
		return k, err
	case jose.RS256:
		return rsa.GenerateKey(rand.Reader, rsaBits)
	}
	return nil, fmt.Errorf("keys: cannot make a key for %q: choose ES256, EdDSA or RS256", alg)
}
