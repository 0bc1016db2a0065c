package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// redacted is what every formatter prints in place of a secret.
const redacted = "[redacted]"

// Secret holds a credential. It prints, logs and marshals as "[redacted]"; the
// only way out is Reveal, whose callers are listed in a test. The value sits
// behind a pointer so that even reflection-based printers do not reach it.
type Secret struct{ p *string }

// New takes s into custody.
func New(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{p: &s}
}

// Reveal returns the secret itself. Call it only where the value leaves the
// process on purpose.
func (s Secret) Reveal() string {
	if s.p == nil {
		return ""
	}
	return *s.p
}

// Empty reports whether there is no secret.
func (s Secret) Empty() bool { return s.p == nil }

// Equal compares in constant time.
func (s Secret) Equal(o Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(o.Reveal())) == 1
}

// Hash is the lower-case hex SHA-256 of the secret: what may be stored or
// logged to recognise it again. Only for secrets of at least 128 random bits.
func (s Secret) Hash() string {
	sum := sha256.Sum256([]byte(s.Reveal()))
	return hex.EncodeToString(sum[:])
}

// String implements fmt.Stringer.
func (s Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return redacted }

// Format implements fmt.Formatter, so that no verb reaches the value.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler, which covers JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText refuses: a secret never comes out of a document that also goes
// to logs.
func (s *Secret) UnmarshalText([]byte) error {
	return errors.New("a secret cannot be decoded from text")
}
