package file

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/ebb-broker/ebb/broker/seal"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Config of this kind. Replicas share the file.
type Config struct {
	// Path of the key. If the file does not exist, ebb creates it once.
	Path string `json:"path"`
	// Previous are files of earlier keys: data keys wrapped by them open, and are then wrapped by
	// the key at Path.
	Previous []string `json:"previous,omitempty"`
}

const (
	keySize = 32
	pemType = "EBB SEALING KEY"
	prefix  = "file:"
)

// Wrapper holds the keys of the files.
type Wrapper struct {
	path   string
	newest string // id
	keys   map[string]cipher.AEAD
}

var _ seal.Wrapper = (*Wrapper)(nil)

// New reads the files.
func New(c Config) (*Wrapper, error) {
	if c.Path == "" {
		return nil, errors.New("sealing key: name the file that holds it")
	}
	key, err := read(c.Path)
	if errors.Is(err, fs.ErrNotExist) && len(c.Previous) == 0 {
		key, err = create(c.Path)
	}
	if err != nil {
		return nil, err
	}
	w := &Wrapper{path: c.Path, keys: map[string]cipher.AEAD{}}
	if w.newest, err = w.add(key); err != nil {
		return nil, err
	}
	for _, p := range c.Previous {
		if key, err = read(p); err == nil {
			_, err = w.add(key)
		}
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

func read(path string) ([]byte, error) {
	text, err := secret.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemType || len(block.Bytes) != keySize || len(rest) != 0 || !bytes.Equal(pem.EncodeToMemory(block), text) {
		return nil, fmt.Errorf("sealing key: %s is not a sealing key of ebb, or was cut or changed by hand: restore it; nothing was overwritten", path)
	}
	return block.Bytes, nil
}

// create makes the file, or reads the one that another process made in the meantime.
func create(path string) ([]byte, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	err := secret.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: key}))
	if errors.Is(err, fs.ErrExist) {
		return read(path)
	}
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return key, nil
}

// idOf returns an id of the key that reveals nothing about it.
func idOf(key []byte) string {
	sum := sha256.Sum256(append([]byte("ebb sealing key id\x00"), key...))
	return hex.EncodeToString(sum[:8])
}

func (w *Wrapper) add(key []byte) (id string, err error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return "", err
	}
	id = idOf(key)
	w.keys[id] = aead
	return id, nil
}

// Wrap implements seal.Wrapper.
func (w *Wrapper) Wrap(_ context.Context, id string, key []byte) (string, error) {
	ct := w.keys[w.newest].Seal(nil, nil, key, []byte(id))
	return prefix + w.newest + ":" + base64.RawURLEncoding.EncodeToString(ct), nil
}

// Unwrap implements seal.Wrapper.
func (w *Wrapper) Unwrap(_ context.Context, id, wrapped string) ([]byte, error) {
	by, body, ok := strings.Cut(strings.TrimPrefix(wrapped, prefix), ":")
	if !ok || !strings.HasPrefix(wrapped, prefix) {
		return nil, fmt.Errorf("%w: it was not wrapped by a key in a file", seal.ErrNoKey)
	}
	aead, known := w.keys[by]
	if !known {
		return nil, fmt.Errorf("%w: it was wrapped by key %.16q, which is in none of the configured files: give every replica the same file, or name it as previous", seal.ErrNoKey, by)
	}
	ct, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil {
		return nil, seal.ErrDamaged
	}
	key, err := aead.Open(nil, nil, ct, []byte(id))
	if err != nil {
		return nil, seal.ErrDamaged
	}
	return key, nil
}

// Stale implements seal.Wrapper.
func (w *Wrapper) Stale(_ context.Context, wrapped string) bool {
	return !strings.HasPrefix(wrapped, prefix+w.newest+":")
}

// Check implements seal.Wrapper: it compares the file with its content at the start.
func (w *Wrapper) Check(context.Context) error {
	key, err := read(w.path)
	if err != nil {
		return fmt.Errorf("%w; put it back before ebb starts again", err)
	}
	if idOf(key) != w.newest {
		return fmt.Errorf("sealing key: %s holds another key than at the start: put the earlier one back, or name its file as previous, before ebb starts again", w.path)
	}
	return nil
}
