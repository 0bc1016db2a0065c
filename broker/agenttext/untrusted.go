package agenttext

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// unrendered is what every printer shows in place of the text. A page test
// fails when it finds it.
const unrendered = "[[UNRENDERED-UNTRUSTED]]"

// Errors of New. Both are the caller's fault.
var (
	ErrTooLong = errors.New("text is too long")
	ErrNotText = errors.New("text is not UTF-8 without NUL")
)

// Untrusted is text that left a sandbox. It prints, logs and renders in
// templates as a marker; Show draws it. The zero value is the empty text. The
// text sits behind a pointer so that fmt does not reach it in an unexported
// field either; compare with Hash or reflect.DeepEqual, not with ==.
type Untrusted struct{ p *string }

// From takes any bytes into custody, for texts whose length was bounded
// elsewhere, such as an error message or a User-Agent.
func From(raw string) Untrusted {
	if raw == "" {
		return Untrusted{}
	}
	return Untrusted{p: &raw}
}

// New takes raw into custody if it is at most max code points (ErrTooLong) of
// UTF-8 without NUL (ErrNotText: no store could keep it). Errors do not quote raw.
func New(raw string, maxCodePoints int) (Untrusted, error) {
	if !utf8.ValidString(raw) || strings.IndexByte(raw, 0) >= 0 {
		return Untrusted{}, ErrNotText
	}
	if n := utf8.RuneCountInString(raw); n > maxCodePoints {
		return Untrusted{}, fmt.Errorf("%w: %d characters, at most %d are accepted", ErrTooLong, n, maxCodePoints)
	}
	return From(raw), nil
}

// Raw returns the text as it came. Call it only to store it or to serve it as a
// download: never to draw, compare or decide.
func (u Untrusted) Raw() string {
	if u.p == nil {
		return ""
	}
	return *u.p
}

// Empty reports whether there is no text.
func (u Untrusted) Empty() bool { return u.p == nil }

// Len is how many code points it has; a byte that is not UTF-8 counts as one.
func (u Untrusted) Len() int { return utf8.RuneCountInString(u.Raw()) }

// Hash is the lower-case hex SHA-256 of the raw bytes.
func (u Untrusted) Hash() string {
	sum := sha256.Sum256([]byte(u.Raw()))
	return hex.EncodeToString(sum[:])
}

// String implements fmt.Stringer: the marker, never the text.
func (u Untrusted) String() string { return unrendered }

// GoString implements fmt.GoStringer.
func (u Untrusted) GoString() string { return unrendered }

// Format implements fmt.Formatter, so that no verb reaches the text.
func (u Untrusted) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, unrendered) }

// LogValue implements slog.LogValuer.
func (u Untrusted) LogValue() slog.Value { return slog.StringValue(unrendered) }

// MarshalText implements encoding.TextMarshaler for every encoder but JSON:
// none of them has a rule for hostile text.
func (u Untrusted) MarshalText() ([]byte, error) { return []byte(unrendered), nil }
