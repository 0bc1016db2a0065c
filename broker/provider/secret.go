package provider

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
)

// Secret holds a credential. Package secret has the type, so that clients of ebb can use it without
// drivers.
type Secret = secret.Secret

// NewSecret returns a Secret that holds s.
func NewSecret(s string) Secret { return secret.New(s) }

// CanInject reports whether egress can add s to requests and look for it in their answers:
// whether its length is between MinInjected and MaxInjected.
func CanInject(s Secret) bool {
	n := len(s.Reveal())
	return n >= MinInjected && n <= MaxInjected
}

// maxSecretFile is far above any key or token that fits into a header.
const maxSecretFile = 64 << 10

// ReadSecret reads a secret from a file: options name files and never hold a
// secret themselves. One newline at the end is not part of it. The file must not
// be readable by others.
func ReadSecret(path string) (Secret, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own configuration names it
	if err != nil {
		return Secret{}, fmt.Errorf("reading a secret: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return Secret{}, fmt.Errorf("reading a secret: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o007 != 0 {
		return Secret{}, fmt.Errorf("reading a secret: %s must be a regular file that others cannot read: chmod o= it", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return Secret{}, fmt.Errorf("reading a secret: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if text == "" || len(raw) > maxSecretFile {
		return Secret{}, fmt.Errorf("reading a secret: %s must hold 1 to %d bytes", path, maxSecretFile)
	}
	return NewSecret(text), nil
}

// SecretStore keeps the operator's secrets for drivers; package secretstore implements it.
type SecretStore interface {
	// Get opens a secret.
	Get(ctx context.Context, name string) (Secret, error)
	// Exchange calls f with the secret while no other caller, on any replica, holds it. It stores
	// the result of f as the new secret; an empty result changes nothing. The context of f ends
	// before hold does.
	Exchange(ctx context.Context, name string, hold time.Duration, f func(context.Context, Secret) (Secret, error)) error
}
