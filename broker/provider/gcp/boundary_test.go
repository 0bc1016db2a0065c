package gcp

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// unquote reads one string literal of CEL and what follows it, by the language
// definition and not by what quote writes.
func unquote(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, "'") {
		return "", s, false
	}
	var b strings.Builder
	for i := 1; i < len(s); {
		switch c := s[i]; {
		case c == '\'':
			return b.String(), s[i+1:], true
		case c == '\n' || c == '\r':
			return "", s, false // no literal goes over a line's end
		case c != '\\':
			b.WriteByte(c)
			i++
		default:
			if i+1 >= len(s) {
				return "", s, false
			}
			digits := map[byte]int{'u': 4, 'U': 8}[s[i+1]]
			switch {
			case strings.IndexByte(`\'"?`+"`", s[i+1]) >= 0:
				b.WriteByte(s[i+1])
				i += 2
			case digits > 0 && i+2+digits <= len(s):
				n, err := strconv.ParseUint(s[i+2:i+2+digits], 16, 32)
				if err != nil || !utf8.ValidRune(rune(n)) {
					return "", s, false
				}
				b.WriteRune(rune(n))
				i += 2 + digits
			default:
				return "", s, false
			}
		}
	}
	return "", s, false
}

// TestBoundaryFits: the driver never sends a boundary that exceeds the service's limits, or
// one without rules.
func TestBoundaryFits(t *testing.T) {
	t.Parallel()
	rules := make([]rule, maxRules+1)
	for i := range rules {
		rules[i] = rule{Permissions: []string{"inRole:r"}, Resource: resource("b" + strconv.Itoa(i))}
	}
	if _, err := encode(rules[:maxRules]); err != nil {
		t.Error(err)
	}
	for _, n := range []int{0, maxRules + 1} {
		if text, err := encode(rules[:n]); err == nil {
			t.Errorf("%d rules: %s", n, text)
		}
	}
	long := []rule{{Permissions: []string{"inRole:r"}, Resource: resource(strings.Repeat("b", maxBoundary))}}
	if text, err := encode(long); err == nil {
		t.Errorf("%d characters are sent", len(text))
	}
}

// FuzzPrefixStaysInItsLiteral checks that an arbitrary prefix cannot end its string literal:
// the condition has the intended form and compares with exactly this prefix.
func FuzzPrefixStaysInItsLiteral(f *testing.F) {
	for _, s := range []string{"in/2026/", "", "'", `\`, `\'`, "') || true || ('", "a'\n//", `\u0027`, "\x00", "\xff", "é/", "𝒜", "\u2028", "\u202e", `"`, "`"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, prefix string) {
		c, err := within("lake", prefix, prefix != "")
		if !utf8.ValidString(prefix) {
			if err == nil {
				t.Fatalf("%q is accepted", prefix)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(c.Expression, "resource.name.startsWith(")
		value, rest, closed := unquote(rest)
		if !ok || !closed || value != "projects/_/buckets/lake/objects/"+prefix {
			t.Fatalf("%q became %s", prefix, c.Expression)
		}
		if prefix != "" {
			rest, ok = strings.CutPrefix(rest, ") || api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith(")
			if value, rest, closed = unquote(rest); !ok || !closed || value != prefix {
				t.Fatalf("%q became %s", prefix, c.Expression)
			}
		}
		if rest != ")" {
			t.Fatalf("%q: %q is outside of the literals", prefix, rest)
		}
		for _, r := range c.Expression {
			if r < ' ' || r > '~' {
				t.Fatalf("%q: %q is in the condition", prefix, r)
			}
		}
	})
}
