package scopes

import (
	"errors"
	"strings"
)

// Any is the action that stands for every action, and the resource segment that stands for exactly one segment.
const Any = "*"

// Rest is the resource segment that stands for one or more remaining segments. It can only be the last one.
const Rest = "**"

// Scope is one parsed `provider:resource:action`. It is comparable: two scopes are equal when their texts are.
// The zero Scope is invalid: it covers nothing and nothing covers it.
type Scope struct {
	text string
	// offsets of the two colons, kept so that the parts are slices of text and a Scope stays comparable
	first, second uint16
}

// Provider is the configured provider instance the scope belongs to. Empty for the zero Scope.
func (s Scope) Provider() string { return s.text[:s.first] }

// Resource is the path at the provider, segments joined by "/". Empty for the zero Scope.
func (s Scope) Resource() string {
	if s.IsZero() {
		return ""
	}
	return s.text[s.first+1 : s.second]
}

// Action returns the action, or [Any]. It is empty for the zero Scope.
func (s Scope) Action() string {
	if s.IsZero() {
		return ""
	}
	return s.text[s.second+1:]
}

// Segments are the parts of [Scope.Resource], including [Any] and [Rest] as written. Nil for the zero Scope.
func (s Scope) Segments() []string {
	if s.IsZero() {
		return nil
	}
	return strings.Split(s.Resource(), "/")
}

// String is the scope exactly as it was parsed.
func (s Scope) String() string { return s.text }

// IsZero reports the invalid zero Scope.
func (s Scope) IsZero() bool { return s.text == "" }

// IsPattern reports whether the scope matches more than one concrete provider/path/action: a "*" or "**" anywhere.
// The charset has no "*" but in those roles.
func (s Scope) IsPattern() bool { return strings.Contains(s.text, Any) }

// MarshalText is [Scope.String]; the zero Scope is an error, because it would not parse back.
func (s Scope) MarshalText() ([]byte, error) {
	if s.IsZero() {
		return nil, errors.New("scope: the zero Scope has no text; parse one first")
	}
	return []byte(s.text), nil
}

// UnmarshalText is [Parse].
func (s *Scope) UnmarshalText(b []byte) error {
	parsed, err := Parse(string(b))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
