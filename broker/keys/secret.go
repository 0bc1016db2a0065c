package keys

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	secretSize = 32
	secretFile = "secret.key"
	secretPEM  = "EBB SECRET"
)

// Derive returns a 32-byte key for one purpose (HKDF-SHA256, RFC 5869). The same
// name gives the same key on every replica that shares the secret, and names
// tell nothing about each other.
func (r *Ring) Derive(name string) []byte {
	out, err := hkdf.Key(sha256.New, r.secret[:], nil, "ebb/"+name, sha256.Size)
	if err != nil {
		// Only an output longer than 255 hashes fails, and this one is one hash.
		panic("keys: derive: " + err.Error())
	}
	return out
}

func newSecret() []byte {
	b := make([]byte, secretSize)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}

func encodeSecret(secret []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: secretPEM, Bytes: secret})
}

func decodeSecret(text []byte) ([]byte, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("it is empty or cut off")
	case block.Type != secretPEM:
		return nil, errors.New("it is not a secret of ebb")
	case len(block.Bytes) != secretSize:
		return nil, fmt.Errorf("it holds %d bytes, not %d", len(block.Bytes), secretSize)
	case len(rest) != 0 || !bytes.Equal(encodeSecret(block.Bytes), text):
		return nil, errors.New("it was changed by hand")
	}
	return block.Bytes, nil
}
