package jose

import (
	"bytes"
	"errors"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// members is one strictly decoded JSON object: its names as sent, its values as
// raw JSON. Nested objects keep their text; they too hold no duplicates.
type members map[string]jsontext.Value

var (
	errDeep      = errors.New("nested too deeply")
	errCrowded   = errors.New("too many members")
	errNotObject = errors.New("not one JSON object")
)

// decodeObject reads exactly one JSON object (RFC 8259, I-JSON RFC 7493): valid
// UTF-8, no duplicate names at any level, nothing after it. Depth and member
// count are checked on the raw bytes before anything is built.
func decodeObject(b []byte, lim Limits) (members, error) {
	if err := measure(b, lim); err != nil {
		return nil, err
	}
	// The first byte decides between an object and null, which decodes as well.
	if trimmed := bytes.TrimLeft(b, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, errNotObject
	}
	out := make(members, 12)
	// The decoder's own errors quote the input; they are not passed on.
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, errNotObject
	}
	return out, nil
}

// measure counts brackets and colons outside strings. On text that is not JSON
// the numbers mean nothing, and the decoder refuses that text anyway.
func measure(b []byte, lim Limits) error {
	depth, names, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > lim.Depth {
				return errDeep
			}
		case c == '}' || c == ']':
			depth--
		case c == ':':
			if names++; names > lim.Members {
				return errCrowded
			}
		}
	}
	return nil
}

// lookAlike reports a name that is another one in different letter case: of a
// registered name, whether or not that is present too, or of a sibling. A
// case-insensitive decoder further on (encoding/json is one) would confuse
// them, so that "AUD" overrides "aud".
func (m members) lookAlike(registered []string) bool {
	fold := false
	for name := range m {
		if !foldable(name) {
			continue
		}
		fold = true
		for _, r := range registered {
			if name != r && strings.EqualFold(name, r) {
				return true
			}
		}
	}
	if !fold {
		return false
	}
	// Not each with each: a stranger chooses how many there are and how much of
	// them is alike.
	seen := make(map[string]struct{}, len(m))
	for name := range m {
		seen[folded(name)] = struct{}{}
	}
	return len(seen) < len(m)
}

// folded is the same text for all that strings.EqualFold calls equal.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			least = min(least, o)
		}
		return least
	}, name)
}

// foldable reports whether a name could be equal to a different one under
// Unicode simple folding: of two such names at least one is not plain lower-case.
func foldable(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c >= 'A' && c <= 'Z' || c >= 0x80 {
			return true
		}
	}
	return false
}

// text unquotes a JSON string; ok is false for every other kind.
func text(v jsontext.Value) (s string, ok bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	out, err := jsontext.AppendUnquote(nil, []byte(v))
	return string(out), err == nil
}

// Plain reports whether s has nothing that can hide or break out when it is
// shown or logged: no control characters (C0, DEL, C1), no format or bidi
// characters (Cf), no line or paragraph separators, valid UTF-8.
func Plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
		if s[i] >= 0x80 {
			return plainUnicode(s[i:])
		}
	}
	return true
}

func plainUnicode(s string) bool {
	for i, r := range s {
		if r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD") {
			return false
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return false
		}
	}
	return true
}
