package stricturl

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PathForm allows characters in a path beyond those that every server reads in the same way.
type PathForm struct {
	// Slash allows an encoded slash in segments, as in names of npm packages, GitLab projects and
	// GCS objects. Such a segment keeps its %2f, in lower case.
	Slash bool
	// Text allows encoded spaces and printable characters of any script in segments, as in file
	// names.
	Text bool
}

// pchar holds the characters of a segment (RFC 3986 section 3.3) without the semicolon. Clients must
// encode all others. A proxy that encodes them itself would forward another path than was checked.
const pchar = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,=:@%"

// maxPath is the longest accepted path in bytes. Servers accept 8 KiB by default.
const maxPath = 8 << 10

// Path decodes the path of a request as it was sent ("/a/b%20c"; RFC 3986 section 3.3)
// into its segments. The last segment may be empty, for a slash at the end. Path refuses other empty
// segments, dot segments in any spelling, encoded slashes, backslashes, percent signs, semicolons,
// question marks and number signs, control characters, and bytes that are not UTF-8. Each of them has
// made two servers see different paths.
func Path(escaped string, form PathForm) ([]string, error) {
	rest, absolute := strings.CutPrefix(escaped, "/")
	if !absolute || len(escaped) > maxPath {
		return nil, refuse(AmbiguousPath, "its path is not absolute, or too long")
	}
	raw := strings.Split(rest, "/")
	segments := make([]string, len(raw))
	for i, r := range raw {
		s, ok := segment(r, form)
		if !ok || s == "" && i < len(raw)-1 {
			return nil, refuse(AmbiguousPath, "servers can read its path in more than one way")
		}
		segments[i] = s
	}
	return segments, nil
}

func segment(raw string, form PathForm) (string, bool) {
	if strings.Trim(raw, pchar) != "" {
		return "", false
	}
	var parts []string
	rest := raw
	for form.Slash {
		i := strings.Index(strings.ToLower(rest), "%2f")
		if i < 0 {
			break
		}
		parts, rest = append(parts, rest[:i]), rest[i+3:]
	}
	parts = append(parts, rest)
	for i, p := range parts {
		s, err := url.PathUnescape(p)
		if err != nil || !plain(s, form.Text) || dots(s) || s == "" && len(parts) > 1 {
			return "", false
		}
		parts[i] = s
	}
	return strings.Join(parts, "%2f"), true
}

// dots reports whether a server may read the segment as "." or "..". Some servers remove trailing
// spaces and dots first.
func dots(s string) bool {
	return strings.Contains(s, "..") && strings.Trim(s, ". ") == "" || s == "."
}

func plain(s string, text bool) bool {
	if !text {
		return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/\;%?#`, r) })
	}
	return utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool {
			return strings.ContainsRune(`/\;%?#`, r) || slices.Contains(slashes, r) || r != ' ' && !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r)
		})
}

// slashes are characters that servers with a "best fit" mapping to a code page turn into a slash, a
// backslash or a dot.
var slashes = []rune{'\u2024', '\u2025', '\u2026', '\u2044', '\u2215', '\u2216', '\u29f5', '\u29f8', '\ufe68', '\uff0e', '\uff0f', '\uff3c'}
