package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/secret"
)

const (
	version = "s1"
	keySize = 32 // AES-256
	// maxSealed is the maximum size that Open accepts: the largest handle is a token of some
	// kilobytes.
	maxSealed = 128 << 10
)

var (
	// ErrNoKey is wrapped when the key is not available: it belongs to another wrapping key, or its
	// location cannot be reached.
	ErrNoKey = errors.New("the sealing key is not available")
	// ErrDamaged is wrapped when the sealed text was altered or belongs to another lease.
	ErrDamaged = errors.New("the sealed text is damaged or belongs elsewhere")
)

// idForm is 16 hex digits: 8 for the second in which the key was made, so that ids sort by age,
// and 8 random ones. Wrapping binds a key to its id and so to its age. An attacker with write
// access to the database alone cannot make an old key the newest again.
var idForm = lazyregexp.New(`^[0-9a-f]{16}$`)

// dataKey seals with one data key.
type dataKey struct {
	id   string
	aead cipher.AEAD
}

func newDataKey(id string, key []byte) (dataKey, error) {
	if len(key) != keySize || !idForm.MatchString(id) {
		return dataKey{}, fmt.Errorf("%w: key %q is not a data key", ErrNoKey, id)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return dataKey{}, err
	}
	// Random nonces of 96 bits: a key may seal 2^32 times (NIST SP 800-38D section 8.3) and is
	// replaced long before that.
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return dataKey{id, aead}, err
}

// bound returns the associated data: the version of the form, the key and the lease.
func bound(id, leaseID string) []byte {
	return []byte("ebb " + version + "\x00" + id + "\x00" + leaseID)
}

func (b dataKey) seal(leaseID string, s secret.Secret) string {
	ct := b.aead.Seal(nil, nil, []byte(s.Reveal()), bound(b.id, leaseID))
	return version + "." + b.id + "." + base64.RawURLEncoding.EncodeToString(ct)
}

func (b dataKey) open(leaseID, body string) (secret.Secret, error) {
	ct, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil {
		return secret.Secret{}, ErrDamaged
	}
	pt, err := b.aead.Open(nil, nil, ct, bound(b.id, leaseID))
	if err != nil {
		return secret.Secret{}, ErrDamaged
	}
	return secret.New(string(pt)), nil
}

// split splits a sealed text into its parts.
func split(sealed string) (id, body string, err error) {
	v, rest, _ := strings.Cut(sealed, ".")
	id, body, ok := strings.Cut(rest, ".")
	if v != version || !ok || !idForm.MatchString(id) || body == "" || len(sealed) > maxSealed {
		return "", "", ErrDamaged
	}
	return id, body, nil
}
