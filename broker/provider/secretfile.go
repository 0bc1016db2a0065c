package provider

import (
	"fmt"
	"io"
	"os"
	"strings"
)

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
